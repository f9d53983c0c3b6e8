"""Mistakes in the secure sum."""

from __future__ import annotations

from typing import Final

from mutants.slip import Slip

SECAGG: Final = (
    Slip(
        "both ends of a pair add their mask",
        "secagg/hiding.py",
        "masks.fold(total, plus=[self_key, *above], minus=below)",
        "masks.fold(total, plus=[self_key, *above, *below], minus=[])",
        "secagg/test_secure_sum.py::test_a_site_without_rows_sends_a_vector_like_any_other",
    ),
    Slip(
        "the self-mask is left off",
        "secagg/hiding.py",
        "masks.fold(total, plus=[self_key, *above], minus=below)",
        "masks.fold(total, plus=above, minus=below)",
        "secagg/test_secure_sum.py::test_a_site_without_rows_sends_a_vector_like_any_other",
    ),
    Slip(
        "seeds towards the lost are taken off with the wrong sign",
        "secagg/opening.py",
        "(added if member < lost else taken).append(seed)",
        "(taken if member < lost else added).append(seed)",
        "secagg/test_secure_sum.py::test_the_sum_is_right_for_every_subset_that_does_not_sign",
    ),
    Slip(
        "shares that do not match their commitment are believed",
        "secagg/opening.py",
        "    if wrong:\n",
        "    if len(wrong) > len(commitments):\n",
        "secagg/test_server.py::test_a_wrong_share_in_an_answer_is_noticed",
    ),
    Slip(
        "signatures of messages are not checked",
        "secagg/envelope.py",
        "    envelope.verify(roster)\n    return envelope",
        "    return envelope",
        "secagg/test_keys.py::test_a_key_replaced_by_somebody_else_is_refused",
    ),
    Slip(
        "a message of another study is taken",
        "secagg/envelope.py",
        "    require(envelope.header.study_hash == study_hash, Code.BAD_MESSAGE)\n",
        "",
        "secagg/test_envelope_bindings.py::test_a_request_signed_for_another_place_is_refused",
    ),
    Slip(
        "a coordinator's signature passes for a site's",
        "secagg/envelope.py",
        'role = "coordinator" if sender == COORDINATOR else "site"',
        'role = "site"',
        "secagg/test_heads.py::test_a_coordinator_s_signature_is_no_site_s",
    ),
    Slip(
        "the body of a message is not signed",
        "secagg/envelope.py",
        'return digest("rest", header[:-_HEAD], body_hash)',
        'return digest("rest", header[:-_HEAD], b"")',
        "secagg/test_envelope_bindings.py::test_a_message_with_any_byte_changed_is_refused",
    ),
    Slip(
        "a signature that was found right is right for whatever comes with it",
        "secagg/keys.py",
        "    found = _found(public, signature, message)",
        '    found = _found(public, signature, b"")',
        "secagg/test_keys.py::test_a_signature_made_here_is_right_for_its_own_bytes_alone",
    ),
    Slip(
        "a letter to another site is taken",
        "secagg/client.py",
        "        require(header.receiver == self._author.me, Code.BAD_MESSAGE)\n",
        "",
        "secagg/test_envelope_bindings.py::test_a_request_signed_for_another_place_is_refused",
    ),
    Slip(
        "anybody in the roster may ask",
        "secagg/client.py",
        "        require(header.sender == COORDINATOR, Code.UNKNOWN_KEY)\n",
        "",
        "secagg/test_envelope_bindings.py::test_only_the_coordinator_is_obeyed",
    ),
    Slip(
        "a set may be one smaller than the threshold",
        "secagg/client.py",
        "require(len(members) >= self._parameters.threshold, Code.TOO_FEW)",
        "require(len(members) >= self._parameters.threshold - 1, Code.TOO_FEW)",
        "secagg/test_opening_sets.py::test_sets_that_are_small_or_foreign_are_refused",
    ),
    Slip(
        "a round may be asked of one site too few",
        "secagg/client.py",
        "require(len(asked.participants) >= self._parameters.threshold, Code.TOO_FEW)",
        "require(len(asked.participants) > 0, Code.TOO_FEW)",
        "secagg/test_opening_sets.py::test_participant_lists_that_are_small_or_foreign_are_refused",
    ),
    Slip(
        "a smaller set needs no certificate",
        "secagg/client.py",
        "        check_certificate(asked.certificate, asked.members, record.context, "
        "self.roster, threshold)\n",
        "        _ = threshold\n",
        "secagg/test_opening_sets.py::test_a_smaller_set_without_certificate_is_refused",
    ),
    Slip(
        "a certificate may be one signature short",
        "secagg/opening.py",
        "require(len(certificate) >= threshold, Code.BAD_CERTIFICATE)",
        "require(len(certificate) >= threshold - 1, Code.BAD_CERTIFICATE)",
        "secagg/test_opening_sets.py::test_a_certificate_with_too_few_or_foreign_signers_is_refused",
    ),
    Slip(
        "signatures of a certificate are counted and not checked",
        "secagg/opening.py",
        "        verify(roster.sites[signer], signature, signed, Code.BAD_CERTIFICATE)\n",
        "        _ = roster.sites[signer], signature, signed\n",
        "secagg/test_opening_sets.py::test_signatures_on_another_set_or_another_round_certify_nothing",
    ),
    Slip(
        "a second set is opened",
        "secagg/memory.py",
        "        require(kept == wanted, Code.SECOND_SET)\n",
        "",
        "secagg/test_opening_sets.py::test_a_second_set_is_refused_whichever_way_it_comes",
    ),
    Slip(
        "seeds towards members are told too",
        "secagg/client.py",
        "seeds = {peer: seed for peer, seed in record.seeds.items() if peer in lost}",
        "seeds = {peer: seed for peer, seed in record.seeds.items() if peer or lost}",
        "secagg/test_epoch_keys.py::test_a_site_never_gives_a_share_and_a_seed_of_the_same_peer",
    ),
    Slip(
        "another bundle under a used round id gets the stored answer",
        "secagg/client.py",
        "            require(same == (header.epoch_id, request, asked.participants), "
        "Code.ROUND_ID_USED)\n",
        "",
        "secagg/test_client_steps.py::test_another_bundle_under_a_used_round_id_is_refused",
    ),
    Slip(
        "a polynomial has one term too few",
        "secagg/shamir.py",
        "(0, *points[: threshold - 1]), tuple(points[threshold - 1 :])",
        "(0, *points[: threshold - 2]), tuple(points[threshold - 2 :])",
        "secagg/test_primitives.py"
        "::test_what_split_deals_to_fewer_than_the_threshold_is_not_enough",
    ),
    Slip(
        "the first site's share is the secret",
        "secagg/shamir.py",
        "    return site + 1\n",
        "    return site\n",
        "secagg/test_primitives.py"
        "::test_what_split_deals_to_fewer_than_the_threshold_is_not_enough",
    ),
    Slip(
        "keys of a round are not bound to its participants",
        "secagg/epoch.py",
        'return digest("ctx", self.id, u64(round), request, who)',
        'return digest("ctx", self.id, u64(round), request)',
        "secagg/test_opening_sets.py"
        "::test_sites_told_different_participants_do_not_open_each_other_s_shares",
    ),
    Slip(
        "keys of a round are not bound to its questions",
        "secagg/epoch.py",
        'return digest("ctx", self.id, u64(round), request, who)',
        'return digest("ctx", self.id, u64(round), who)',
        "secagg/test_envelope_bindings.py"
        "::test_sites_told_different_bundles_or_rounds_do_not_open_each_other",
    ),
    Slip(
        "all rounds of an epoch have the same masks",
        "secagg/epoch.py",
        'return digest("ctx", self.id, u64(round), request, who)',
        'return digest("ctx", self.id, request, who)',
        "secagg/test_client_steps.py::test_masks_differ_from_round_to_round",
    ),
    Slip(
        "a forked copy of a site masks a second vector",
        "secagg/epoch.py",
        "        require(self.process == os.getpid(), Code.UNKNOWN_KEY)",
        "        require(self.process > 0, Code.UNKNOWN_KEY)",
        "secagg/test_client_steps.py::test_a_forked_copy_of_a_site_makes_no_vector",
    ),
    Slip(
        "a round is masked twice",
        "secagg/epoch.py",
        "            require(round > self.last_round, Code.OLD_ROUND)\n",
        "            require(round >= self.last_round, Code.OLD_ROUND)\n",
        "secagg/test_client_steps.py::test_two_threads_never_mask_one_round_twice",
    ),
    Slip(
        "one key joins an epoch under two names",
        "secagg/epoch.py",
        "    require(different == len(everyone), Code.DUPLICATE_KEY)\n",
        "    require(different <= len(everyone), Code.DUPLICATE_KEY)\n",
        "secagg/test_keys.py::test_one_key_under_two_names_is_refused",
    ),
    Slip(
        "an epoch is formed by too few",
        "secagg/epoch.py",
        "    require(len(everyone) >= parameters.threshold, Code.TOO_FEW)\n",
        "    require(len(everyone) > 1, Code.TOO_FEW)\n",
        "secagg/test_keys.py::test_an_epoch_of_fewer_than_the_threshold_is_refused",
    ),
    Slip(
        "a peer's ledger may go back",
        "secagg/membership.py",
        "            require(seen is None or follows(one.head, seen), Code.LEDGER_ROLLED_BACK)\n",
        "            _ = follows(one.head, seen or one.head)\n",
        "secagg/test_heads.py::test_two_heads_with_one_number_are_refused_by_coordinator_and_peers",
    ),
    Slip(
        "a head counts without its owner's signature",
        "secagg/membership.py",
        "if told is not None and told.is_by(self.roster.sites[self.me]):",
        "if told is not None:",
        "secagg/test_heads.py::test_a_false_head_told_by_a_peer_stops_nobody",
    ),
    Slip(
        "a site does not look at the head that somebody holds of it",
        "secagg/membership.py",
        "        require(mine == found, Code.LEDGER_ROLLED_BACK)\n",
        "        _ = mine == found\n",
        "secagg/test_heads.py"
        "::test_a_site_stops_when_the_coordinator_holds_a_head_ahead_of_its_file",
    ),
    Slip(
        "a position of 64 bits is read",
        "secagg/encoding.py",
        "    require(number < _LONGEST_COUNT, Code.BAD_MESSAGE)\n",
        "",
        "secagg/test_heads.py::test_a_count_of_more_than_63_bits_is_refused_on_reading",
    ),
    Slip(
        "the coordinator adds a vector twice",
        "secagg/secure_sum.py",
        "        if sender in self._commitments:\n            return\n",
        "",
        "secagg/test_server.py::test_the_coordinator_takes_each_vector_once",
    ),
    Slip(
        "a late vector is added after the set was closed",
        "secagg/secure_sum.py",
        "        require(self.members is None, Code.OLD_ROUND, sender)\n",
        "",
        "secagg/test_server.py::test_a_late_vector_cannot_be_opened",
    ),
)
