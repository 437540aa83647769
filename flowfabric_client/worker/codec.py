"""How a payload becomes a handler's argument, and its return value a result."""

from __future__ import annotations

import functools
import inspect
import json
import typing
from collections.abc import Callable, Mapping, Sequence
from types import NoneType
from typing import Any

from flowfabric_client.worker.signals import PermanentError

Decoder = Callable[[bytes], Any]

_JSON_TYPES: Mapping[Any, tuple[type, ...]] = {
    dict: (dict,),
    Mapping: (dict,),
    list: (list,),
    Sequence: (list,),
    int: (int,),
    float: (int, float),
    bool: (bool,),
    NoneType: (NoneType,),
}


class InvalidPayloadError(PermanentError):
    """The payload is not what the handler's annotation asks for."""

    def __init__(self, why: object) -> None:
        super().__init__(f"invalid_payload: {why}")


class UnserialisableValueError(PermanentError):
    """Something that was to be stored is neither bytes, nor text, nor JSON."""

    what = "value"

    def __init__(self, why: object) -> None:
        super().__init__(f"unserialisable_{self.what}: {why}")


class UnserialisableResultError(UnserialisableValueError):
    """The handler returned something that is neither bytes, nor text, nor JSON."""

    what = "result"


def payload_decoder(function: Callable[..., Any]) -> Decoder | None:
    """The decoder that a handler's second parameter asks for; None if it has no second parameter.

    Raises:
        TypeError: the handler cannot be called with (ctx) or (ctx, payload), or its annotation is unknown.
    """
    name = getattr(function, "__qualname__", repr(function))
    parameters = [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    required = [parameter for parameter in parameters if parameter.default is parameter.empty]
    if not parameters or len(required) > 2:
        raise TypeError(f"handler {name} must take (ctx) or (ctx, payload)")
    if len(parameters) == 1:
        return None
    try:
        annotation = typing.get_type_hints(_annotated(function)).get(parameters[1].name, bytes)
    except NameError:
        # A class that is known only where the handler was defined: the annotation itself, unless it is text.
        annotation = parameters[1].annotation
    decoder = _decoder_for(annotation)
    if decoder is None:
        raise TypeError(
            f"handler {name}: a payload cannot be decoded as {annotation!r};"
            " use bytes, str, a JSON type, or a class with model_validate_json"
        )
    return decoder


def _annotated(function: Callable[..., Any]) -> Any:
    while isinstance(function, functools.partial):
        function = function.func
    return function if inspect.isroutine(function) else type(function).__call__


def _decoder_for(annotation: Any) -> Decoder | None:
    if annotation in (bytes, inspect.Parameter.empty):
        return bytes
    if annotation is str:
        return _decode_text
    validate = getattr(annotation, "model_validate_json", None)
    if callable(validate):
        return _model_decoder(validate)
    if annotation in (Any, object):
        return _decode_json
    origin = dict if typing.is_typeddict(annotation) else typing.get_origin(annotation) or annotation
    accepted = _JSON_TYPES.get(origin) if isinstance(origin, type) else None
    return None if accepted is None else _json_decoder(accepted)


def _decode_text(payload: bytes) -> str:
    try:
        return payload.decode()
    except UnicodeDecodeError as cause:
        raise InvalidPayloadError(cause) from cause


def _decode_json(payload: bytes) -> Any:
    try:
        return json.loads(payload)
    except (ValueError, RecursionError) as cause:
        raise InvalidPayloadError(cause) from cause


def _json_decoder(accepted: tuple[type, ...]) -> Decoder:
    def decode(payload: bytes) -> Any:
        value = _decode_json(payload)
        # JSON's true is an int in Python only.
        if not isinstance(value, accepted) or (isinstance(value, bool) and bool not in accepted):
            wanted = " or ".join(kind.__name__ for kind in accepted)
            raise InvalidPayloadError(f"expected {wanted}, found {type(value).__name__}")
        return value

    return decode


def _model_decoder(validate: Callable[[bytes], Any]) -> Decoder:
    def decode(payload: bytes) -> Any:
        try:
            return validate(payload)
        except Exception as cause:
            raise InvalidPayloadError(cause) from cause

    return decode


def encode_result(value: Any) -> tuple[bytes | None, str | None]:
    """The result and its encoding, as the engine stores them.

    Raises:
        UnserialisableResultError: the value has no such form.
    """
    try:
        return encode_value(value)
    except UnserialisableValueError as error:
        raise UnserialisableResultError(error.__cause__) from error.__cause__


def encode_value(value: Any) -> tuple[bytes | None, str | None]:
    """A value and its encoding: bytes as they are, text as UTF-8, a model and everything else as JSON.

    Raises:
        UnserialisableValueError: the value has no such form.
    """
    if value is None:
        return None, None
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value), "binary"
    try:
        if isinstance(value, str):
            return value.encode(), "text"
        dump = getattr(value, "model_dump_json", None)
        text = dump() if callable(dump) else json.dumps(value, allow_nan=False)
        return str(text).encode(), "json"
    except Exception as cause:
        raise UnserialisableValueError(cause) from cause


def failure_text(error: object) -> str:
    """What is stored of an error: text that PostgreSQL accepts, of bounded length."""
    try:
        text = str(error) or type(error).__name__
    except Exception:
        text = type(error).__name__
    return text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")[:2000]
