"""The file of a run's messages: what was written comes back, and a torn end is cut off once."""

from dataclasses import replace

import pytest

from hedgerow.errors import ParameterError
from hedgerow.federation.transcript import (
    FileTranscript,
    Transcript,
    TranscriptRound,
    shown_messages,
)
from hedgerow.secagg.encoding import digest
from hedgerow.secagg.envelope import MessageKind, message_digest, redact
from hedgerow.secagg.messages import Mode
from support.secagg_dry_run import consortium, masked_round, some_vectors


@pytest.fixture(scope="module")
def played():
    group = consortium(3)
    return group, masked_round(group, some_vectors(3))


def a_round(secure, number=1, **changed):
    messages = shown_messages(secure.messages)
    one = TranscriptRound(number, 1, False, Mode.IN_TWO, b"q", b"d", (0, 1, 2), messages)
    return replace(one, **changed)


def written(path, group, rounds):
    file = FileTranscript(path)
    file.add_session(1, group.coordinator.session)
    for one in rounds:
        file.add_round(one)
    file.close()


def test_what_was_written_comes_back(played, tmp_path):
    group, secure = played
    rounds = [a_round(secure), a_round(secure, 2, is_void=True, mode=Mode.AT_ONCE)]
    path = tmp_path / "transcript.bin"
    written(path, group, rounds)
    found = Transcript.read(path)
    assert list(found.rounds.values()) == rounds
    assert found.key_sessions == {
        1: (group.coordinator.session.id, dict(group.coordinator.session.ephemerals))
    }
    assert found.last_words == ()
    file = FileTranscript(path)
    word = secure.messages[0, MessageKind.MASKED]
    file.add_closed([word])
    file.close()
    assert Transcript.read(path).last_words == (redact(word),)
    assert digest("message", redact(word)) == message_digest(word)


def test_messages_stand_in_one_order_whoever_came_first(played):
    _, secure = played
    turned = dict(reversed(list(secure.messages.items())))
    assert shown_messages(turned) == shown_messages(secure.messages)
    assert len(shown_messages(turned)) == 3


def test_a_torn_end_is_refused_by_readers_and_cut_off_by_the_run(played, tmp_path):
    group, secure = played
    path = tmp_path / "transcript.bin"
    written(path, group, [a_round(secure), a_round(secure, 2)])
    whole = path.read_bytes()
    for cut in (1, 5, 100):
        path.write_bytes(whole[:-cut])
        with pytest.raises(ParameterError, match="in the middle of a record"):
            Transcript.read(path)
        FileTranscript(path).close()
        assert list(Transcript.read(path).rounds) == [1]
        path.write_bytes(whole)


def test_a_round_that_was_written_twice_counts_as_it_was_written_last(played, tmp_path):
    group, secure = played
    path = tmp_path / "transcript.bin"
    written(path, group, [a_round(secure, is_void=True), a_round(secure)])
    assert not Transcript.read(path).rounds[1].is_void


def test_strange_bytes_are_no_transcript(tmp_path):
    path = tmp_path / "transcript.bin"
    path.write_bytes(b"Z" + (3).to_bytes(8, "big") + b"abc")
    with pytest.raises(ParameterError, match="no transcript"):
        Transcript.read(path)
    path.write_bytes(b"R" + (3).to_bytes(8, "big") + b"abc")
    with pytest.raises(ParameterError, match="no transcript"):
        Transcript.read(path)


@pytest.mark.parametrize(
    "changed",
    [
        {"number": 2}, {"is_void": True}, {"mode": Mode.AT_ONCE}, {"questions": b"r"},
        {"definitions": b"e"}, {"participants": (0, 1)}, {"messages": ()},
    ],
)  # fmt: skip
def test_every_part_of_a_round_is_in_its_leaf(played, changed):
    _, secure = played
    assert a_round(secure).leaf != replace(a_round(secure), **changed).leaf
