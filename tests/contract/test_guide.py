"""The guide for a consortium, as a newcomer types it: from `site init` to `model.json`."""

from __future__ import annotations

import pytest

import hedgerow as hr
from contract.guide import SITES, TRANSCRIPT, Typist, commands
from contract.network_world import processes


@pytest.mark.slow
def test_the_guide_leads_from_empty_folders_to_a_model(tmp_path):
    with processes(tmp_path) as started:
        typist = Typist(tmp_path, started)
        for who, words in commands():
            typist.type(who, words)
    model = hr.load(tmp_path / "coordinator" / "study" / "model.json")
    assert model.privacy_.epsilon == 1.0
    assert "simulated" not in str(model.privacy_)
    for name in SITES:
        assert (tmp_path / name / "state" / "audit.jsonl").read_text().count('"round"') >= 3


def test_the_transcript_has_every_command_of_the_guide():
    text = TRANSCRIPT.read_text(encoding="utf-8")
    for who, words in commands():
        assert f"{who}$ {words}\n" in text
