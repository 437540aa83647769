"""Django: `atomic` covers the model and the work that it causes, in the view and in the worker.

    pip install django
    flowfabric dev                                   # in one terminal; prints the connection string
    export FLOWFABRIC_DSN=postgresql://...           # in the others
    python examples/django_app.py create_table
    python examples/django_app.py runserver
    cd examples && flowfabric worker django_app:worker
    curl -X POST localhost:8000/subscribers -d address=ada@example.org
    curl localhost:8000/subscribers

The engine is called on the connection that Django has open anyway (`connection.connection` is psycopg's), so
there is no second transaction. All of it is in one file to be read at once; in a project the model, the view
and the settings are where they always are.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import django
from django.conf import settings
from psycopg.conninfo import conninfo_to_dict

DSN = os.environ.get("FLOWFABRIC_DSN", "")
_PARTS = conninfo_to_dict(DSN)

settings.configure(
    DEBUG=True,
    ALLOWED_HOSTS=["*"],
    ROOT_URLCONF=__name__,
    SECRET_KEY=os.environ.get("DJANGO_SECRET_KEY", "only for development"),
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": _PARTS.get("dbname"),
            "USER": _PARTS.get("user"),
            "PASSWORD": _PARTS.get("password"),
            "HOST": _PARTS.get("host"),
            "PORT": _PARTS.get("port"),
        }
    },
)
django.setup()

from django.core.management import execute_from_command_line  # noqa: E402 - all of these need the settings
from django.db import close_old_connections, connection, models, transaction  # noqa: E402
from django.http import HttpRequest, JsonResponse  # noqa: E402
from django.urls import path  # noqa: E402
from django.views.decorators.csrf import csrf_exempt  # noqa: E402

from flowfabric_client import Client  # noqa: E402
from flowfabric_client.worker import SyncContext, Worker  # noqa: E402

worker = Worker(DSN, lanes=["mail"])


class Subscriber(models.Model):  # type: ignore[misc]
    """Somebody who wants mail."""

    address = models.TextField(unique=True)
    welcomed = models.BooleanField(default=False)

    class Meta:
        app_label = "newsletter"


@csrf_exempt  # type: ignore[untyped-decorator]
def subscribers(request: HttpRequest) -> JsonResponse:
    """POST adds a subscriber and asks for a welcome, in one commit; GET lists them."""
    if request.method == "POST":
        with transaction.atomic():
            subscriber = Subscriber.objects.create(address=request.POST["address"])
            Client(connection.connection).create_execution(
                "welcome", payload=json.dumps({"subscriber": subscriber.pk}).encode(), lane_id="mail"
            )
        return JsonResponse({"id": subscriber.pk}, status=202)
    everybody = Subscriber.objects.order_by("pk").values("address", "welcomed")
    return JsonResponse({"subscribers": list(everybody)})


urlpatterns = [path("subscribers", subscribers)]


@worker.handler("welcome")
def welcome(ctx: SyncContext, payload: dict[str, Any]) -> None:
    """A plain function runs in a thread, where the ORM is at home; its effect commits with the completion."""
    close_old_connections()  # as Django does between two requests
    with transaction.atomic():
        Subscriber.objects.filter(pk=payload["subscriber"]).update(welcomed=True)
        ctx.complete_in(connection.connection)


if __name__ == "__main__":
    if sys.argv[1:] == ["create_table"]:  # a project has migrations for this
        with connection.schema_editor() as editor:
            editor.create_model(Subscriber)
    else:
        execute_from_command_line(sys.argv)
