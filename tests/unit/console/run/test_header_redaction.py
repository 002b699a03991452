import json

from console.run.header import redaction_sentences


def test_a_manifest_is_told_in_words() -> None:
    stage = {"files": 1, "values": 2, "model_calls": 0}
    manifest = {
        "mode": "redact",
        "model": None,
        "stages": [
            {"stage": "inputs", "status": "completed", **stage},
            {"stage": "outputs", "status": "pending", **stage},
        ],
        "categories": {"EMAIL_ADDRESS": 2},
        "counts": {"values": 2, "files": 1, "withheld_files": 1, "model_calls": 0},
    }
    assert redaction_sentences(json.dumps(manifest)) == [
        "Personal data is replaced by its type in brackets.",
        "The inputs were swept: 2 values found, 1 file read.",
        "The outputs are still to be swept.",
        "Found: 2 EMAIL_ADDRESS.",
        "1 file could not be swept and was withheld.",
    ]
