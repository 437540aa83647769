"""The demo: an article is drafted by many, chosen by a quorum, approved by a person, published once."""
