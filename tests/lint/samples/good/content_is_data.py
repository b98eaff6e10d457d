"""Content may be transformed and handed on, as long as nothing is decided with it."""
import json


def titles(outcome):
    data = json.loads(outcome.details["response_body"])
    return [item["title"].strip() for item in data["items"]]


def first_words(outcome):
    words = outcome.details["llm_output"].split()
    return {"words": " ".join(words[:10]), "text": "\n".join(words)}


def pages(outcome, emit):
    for item in outcome.details["response_body"]["items"]:
        emit(item)
