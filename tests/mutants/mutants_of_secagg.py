"""Mistakes in the secure sum."""

from __future__ import annotations

from typing import Final

from mutants.mutant import Mutant

PARTS: Final = "federation/test_plausibility.py::"

SECAGG: Final = (
    Mutant(
        "a share is believed that its owner has not announced",
        "secagg/opening.py",
        "ShareVerdict(share) if fits_share(*place, share) else ShareVerdict(None, giver)",
        "ShareVerdict(share)",
        "secagg/test_server.py::test_whoever_answers_badly_is_named_and_the_owner_is_not",
    ),
    Mutant(
        "a complaint is believed without its key",
        "secagg/opening.py",
        "    if not fits_key(*place, key):\n        return ShareVerdict(None, is_open=True)\n",
        "",
        "secagg/test_server.py::test_whoever_answers_badly_is_named_and_the_owner_is_not",
    ),
    Mutant(
        "a round is answered though heads of peers are withheld",
        "secagg/client.py",
        "require(site_session.is_fresh(header.round, body.participants, reach), Code.STALE)",
        "pass",
        "secagg/test_heads.py"
        "::test_a_coordinator_that_withholds_heads_gets_no_more_than_two_rounds",
    ),
    Mutant(
        "a fork is believed without signatures",
        "secagg/envelope.py",
        "    return differ and first.is_by(site) and second.is_by(site)\n",
        "    return differ\n",
        "secagg/test_heads.py::test_what_is_no_fork_ends_nobody",
    ),
    Mutant(
        "a site that was started anew needs no witnesses",
        "secagg/client.py",
        "        return self._proofs.get(place) != members\n",
        "        return False\n",
        "federation/test_site_store_restored.py"
        "::test_machines_brought_back_with_their_anchors_open_no_second_set",
    ),
    Mutant(
        "one witness less suffices",
        "secagg/opening.py",
        "    return participants - threshold + colluders + 1\n",
        "    return participants - threshold + colluders\n",
        "federation/test_site_store_restored.py"
        "::test_machines_brought_back_with_their_anchors_open_no_second_set",
    ),
    Mutant(
        "a witness is bound by nothing it said before a restart",
        "secagg/client.py",
        "        require(self._is_own(record), Code.STALE)\n",
        "",
        "federation/test_site_store_restored.py"
        "::test_machines_brought_back_with_their_anchors_open_no_second_set",
    ),
    Mutant(
        "a site that is left out is asked all the same",
        "federation/session_state.py",
        "rest = self.present - frozenset(without)",
        "rest = self.present",
        f"{PARTS}test_a_study_pays_for_each_sites_part_out_of_the_same_budget",
    ),
    Mutant(
        "sums keep the whole budget, and parts are paid for on top of it",
        "federation/plausibility.py",
        "left = 1 - self.fraction if",
        "left = 1 if",
        f"{PARTS}test_a_study_pays_for_each_sites_part_out_of_the_same_budget",
    ),
    Mutant(
        "negative parts are not looked for",
        "federation/plausibility.py",
        "return together - math.log(np.size(evidence)) > -math.log(alarm)",
        "return together < -math.inf",
        f"{PARTS}test_a_liar_who_exaggerates_is_named_and_one_who_turns_labels_is_not[gaussian]",
    ),
    Mutant(
        "the parts of a table are not held against the whole",
        "federation/plausibility.py",
        "if (lows > whole[1]).any() or (highs < whole[0]).any():",
        "if (lows < -whole[1]).any():",
        f"{PARTS}test_sums_of_different_rounds_do_not_contradict_each_other"
        "[parts are less than the whole]",
    ),
    Mutant(
        "a coordinator that was started again shows no heads",
        "deployment/run_folder.py",
        "coordinator.receipts = journal.receipts",
        "coordinator.receipts = {}",
        f"{PARTS}test_a_run_that_measures_parts_goes_on_where_it_was_stopped[6]",
    ),
    Mutant(
        "work for a round may take any time",
        "federation/client.py",
        "self._clock() - began > most",
        "self._clock() - began > most + 1000",
        "federation/test_surface.py"
        "::test_a_round_that_takes_longer_than_the_policy_allows_ends_the_study",
    ),
    Mutant(
        "a root rests on X25519 alone",
        "secagg/keys.py",
        '.derive(b"".join(secrets))',
        ".derive(secrets[1])",
        "secagg/test_keys.py::test_a_root_needs_both_secrets",
    ),
    Mutant(
        "the tag of a ciphertext is not checked",
        "secagg/session.py",
        "        require(hmac.compare_digest(right, tag), Code.BAD_KEY, peer)\n",
        "",
        "secagg/test_keys.py"
        "::test_a_ciphertext_or_a_tag_that_was_changed_is_seen_before_a_mask_is_made[0]",
    ),
    Mutant(
        "a site answers without a root with everybody",
        "secagg/session.py",
        "        require(all(peer in self.roots for peer in peers), Code.BAD_SET)\n",
        "",
        "secagg/test_keys.py::test_an_answer_needs_a_root_with_everybody_who_takes_part",
    ),
    Mutant(
        "a last word is believed without its lasting signature",
        "secagg/closing.py",
        "        require(right, Code.BAD_SIGNATURE, header.sender)\n",
        "",
        "secagg/test_closing.py::test_a_last_word_must_be_signed_to_last[releases cut short]",
    ),
    Mutant(
        "a site that has closed still answers",
        "secagg/client.py",
        "        require(still, Code.STUDY_CLOSED)\n",
        "",
        "secagg/test_closing.py::test_after_it_no_other_message_is_answered",
    ),
    Mutant(
        "a last word leaves out the answers about sets",
        "federation/site_store.py",
        "            self._release(run_id, round, kind, message)\n",
        "",
        "deployment/test_replay.py::test_every_kind_of_run_is_replayed[in two, one lost]",
    ),
    Mutant(
        "a model that the sums do not lead to is believed",
        "deployment/verify.py",
        'if name != "run" and content[name] != own_content[name]]',
        "if name not in content]",
        "deployment/test_replay.py::test_a_model_whose_leaves_were_turned_round_is_refused_by_name",
    ),
    Mutant(
        "another run of the study is not looked for",
        "deployment/replay.py",
        "if word.body.rounds != len(rounds) or cost > shown:",
        "if cost > shown and not rounds:",
        "deployment/test_replay.py::test_a_second_run_that_is_not_shown_is_refused_by_name",
    ),
    Mutant(
        "the mode of a round is not in its context",
        "secagg/messages.py",
        'digest("bundle", bytes((self.mode,)), self.bundle)',
        'digest("bundle", self.bundle)',
        "secagg/test_at_once.py::test_one_round_has_one_mode_at_a_site",
    ),
    Mutant(
        "masks that are left in a sum are not seen",
        "secagg/secure_sum.py",
        "if self._total[-LANES:].any():",
        "if self._total[-LANES:].any() and not members:",
        "secagg/test_at_once.py"
        "::test_a_vector_whose_masks_are_not_those_of_its_peers_opens_nothing[-1]",
    ),
    Mutant(
        "a round that was opened at once is opened again for fewer",
        "secagg/client.py",
        "        require(record.mode is Mode.IN_TWO, Code.BAD_SET)\n",
        "",
        "secagg/test_at_once.py::test_nobody_helps_to_open_it_for_fewer_or_once_more[members0]",
    ),
    Mutant(
        "what void rounds have cost is not taken from the reserve",
        "federation/session_state.py",
        "self._void += price(bundle)",
        "self._void += 0",
        "federation/test_session_state.py"
        "::test_what_void_rounds_have_cost_is_left_of_the_reserve_no_more",
    ),
    Mutant(
        "who made a round void is in the next one",
        "federation/session_state.py",
        "- self._exclusions - self._left_out\n",
        "- self._exclusions\n",
        "federation/test_session_state.py"
        "::test_a_round_that_lacks_one_is_void_charged_and_asked_anew_without_it",
    ),
    Mutant(
        "both ends of a pair add their mask",
        "secagg/membership.py",
        "masks.fold(total, plus=[*self_keys, *above], minus=below)",
        "masks.fold(total, plus=[*self_keys, *above, *below], minus=[])",
        "secagg/test_secure_sum.py::test_a_site_without_rows_sends_a_vector_like_any_other",
    ),
    Mutant(
        "the self-mask is left off",
        "secagg/membership.py",
        "masks.fold(total, plus=[*self_keys, *above], minus=below)",
        "masks.fold(total, plus=above, minus=below)",
        "secagg/test_secure_sum.py::test_a_site_without_rows_sends_a_vector_like_any_other",
    ),
    Mutant(
        "seeds towards the lost are taken off with the wrong sign",
        "secagg/opening.py",
        "(added_masks if member < lost else subtracted_masks).append(seed)",
        "(subtracted_masks if member < lost else added_masks).append(seed)",
        "secagg/test_secure_sum.py::test_the_sum_is_right_for_every_subset_that_does_not_sign",
    ),
    Mutant(
        "shares that do not match their commitment are believed",
        "secagg/opening.py",
        "    if wrong:\n",
        "    if len(wrong) > len(commitments):\n",
        "secagg/test_server.py::test_inconsistent_shares_name_their_dealer_and_open_nothing",
    ),
    Mutant(
        "signatures of messages are not checked",
        "secagg/envelope.py",
        "    envelope.verify(roster)\n    return envelope",
        "    return envelope",
        "secagg/test_keys.py::test_a_key_replaced_by_somebody_else_is_refused",
    ),
    Mutant(
        "a message of another study is taken",
        "secagg/envelope.py",
        "    require(envelope.header.study_hash == study_hash, Code.BAD_MESSAGE)\n",
        "",
        "secagg/test_envelope_bindings.py::test_a_request_signed_for_another_place_is_refused",
    ),
    Mutant(
        "a coordinator's signature passes for a site's",
        "secagg/envelope.py",
        'role = "coordinator" if sender == COORDINATOR else "site"',
        'role = "site"',
        "secagg/test_heads.py::test_a_coordinator_s_signature_is_no_site_s",
    ),
    Mutant(
        "the body of a message is not signed",
        "secagg/envelope.py",
        'return digest("rest", header[:-_HEAD], body_hash)',
        'return digest("rest", header[:-_HEAD], b"")',
        "secagg/test_envelope_bindings.py::test_a_message_with_any_byte_changed_is_refused",
    ),
    Mutant(
        "a signature that was found right is right for whatever comes with it",
        "secagg/keys.py",
        "    result = _verdicts(public, signature, message)",
        '    result = _verdicts(public, signature, b"")',
        "secagg/test_keys.py::test_a_signature_made_here_is_right_for_its_own_bytes_alone",
    ),
    Mutant(
        "a letter to another site is taken",
        "secagg/client.py",
        "        require(header.receiver == self._author.me, Code.BAD_MESSAGE)\n",
        "",
        "secagg/test_envelope_bindings.py::test_a_request_signed_for_another_place_is_refused",
    ),
    Mutant(
        "anybody in the roster may ask",
        "secagg/client.py",
        "        require(header.sender == COORDINATOR, Code.UNKNOWN_KEY)\n",
        "",
        "secagg/test_envelope_bindings.py::test_only_the_coordinator_is_obeyed",
    ),
    Mutant(
        "a set may be one smaller than the threshold",
        "secagg/client.py",
        "require(len(members) >= self._parameters.threshold, Code.TOO_FEW)",
        "require(len(members) >= self._parameters.threshold - 1, Code.TOO_FEW)",
        "secagg/test_opening_sets.py::test_sets_that_are_small_or_foreign_are_refused",
    ),
    Mutant(
        "a round may be asked of one site too few",
        "secagg/client.py",
        "require(len(body.participants) >= self._parameters.threshold, Code.TOO_FEW)",
        "require(len(body.participants) > 0, Code.TOO_FEW)",
        "secagg/test_opening_sets.py::test_participant_lists_that_are_small_or_foreign_are_refused",
    ),
    Mutant(
        "a smaller set needs no certificate",
        "secagg/client.py",
        "check_certificate(request.certificate, members, record.context, self.roster, threshold)",
        "_ = threshold, members",
        "secagg/test_opening_sets.py::test_a_smaller_set_without_certificate_is_refused",
    ),
    Mutant(
        "a certificate may be one signature short",
        "secagg/opening.py",
        "require(len(certificate) >= threshold, Code.BAD_CERTIFICATE)",
        "require(len(certificate) >= threshold - 1, Code.BAD_CERTIFICATE)",
        "secagg/test_opening_sets.py::test_a_certificate_with_too_few_or_foreign_signers_is_refused",
    ),
    Mutant(
        "signatures of a certificate are counted and not checked",
        "secagg/opening.py",
        "verify_signature(roster.sites[signer], signature, content, Code.BAD_CERTIFICATE)",
        "_ = roster.sites[signer], signature, content",
        "secagg/test_opening_sets.py::test_signatures_on_another_set_or_another_round_certify_nothing",
    ),
    Mutant(
        "a second set is opened",
        "secagg/memory.py",
        "        require(first == target, Code.SECOND_SET)\n",
        "",
        "secagg/test_opening_sets.py::test_a_second_set_is_refused_whichever_way_it_comes",
    ),
    Mutant(
        "seeds towards members are told too",
        "secagg/client.py",
        "seeds = {peer: seed for peer, seed in record.seeds.items() if peer in lost}",
        "seeds = {peer: seed for peer, seed in record.seeds.items() if peer or lost}",
        "secagg/test_session_keys.py::test_a_site_never_gives_a_share_and_a_seed_of_the_same_peer",
    ),
    Mutant(
        "another bundle under a used round id gets the stored answer",
        "secagg/client.py",
        "            require(same == (header.session_id, request, body.participants), "
        "Code.ROUND_ID_USED)\n",
        "",
        "secagg/test_client_steps.py::test_another_bundle_under_a_used_round_id_is_refused",
    ),
    Mutant(
        "a polynomial has one term too few",
        "secagg/shamir.py",
        "(0, *points[: threshold - 1]), tuple(points[threshold - 1 :])",
        "(0, *points[: threshold - 2]), tuple(points[threshold - 2 :])",
        "secagg/test_primitives.py"
        "::test_what_split_deals_to_fewer_than_the_threshold_is_not_enough",
    ),
    Mutant(
        "the first site's share is the secret",
        "secagg/shamir.py",
        "    return site + 1\n",
        "    return site\n",
        "secagg/test_primitives.py"
        "::test_what_split_deals_to_fewer_than_the_threshold_is_not_enough",
    ),
    Mutant(
        "keys of a round are not bound to its participants",
        "secagg/session.py",
        'return digest("ctx", self.id, u64(round), request, keys)',
        'return digest("ctx", self.id, u64(round), request)',
        "secagg/test_opening_sets.py"
        "::test_sites_told_different_participants_do_not_open_each_other_s_shares",
    ),
    Mutant(
        "keys of a round are not bound to its questions",
        "secagg/session.py",
        'return digest("ctx", self.id, u64(round), request, keys)',
        'return digest("ctx", self.id, u64(round), keys)',
        "secagg/test_envelope_bindings.py"
        "::test_sites_told_different_bundles_or_rounds_do_not_open_each_other",
    ),
    Mutant(
        "all rounds of a key session have the same masks",
        "secagg/session.py",
        'return digest("ctx", self.id, u64(round), request, keys)',
        'return digest("ctx", self.id, request, keys)',
        "secagg/test_client_steps.py::test_masks_differ_from_round_to_round",
    ),
    Mutant(
        "a forked copy of a site masks a second vector",
        "secagg/session.py",
        "        require(self.process == os.getpid(), Code.UNKNOWN_KEY)",
        "        require(self.process > 0, Code.UNKNOWN_KEY)",
        "secagg/test_client_steps.py::test_a_forked_copy_of_a_site_makes_no_vector",
    ),
    Mutant(
        "a round is masked twice",
        "secagg/session.py",
        "            require(round > self.last_round, Code.OLD_ROUND)\n",
        "            require(round >= self.last_round, Code.OLD_ROUND)\n",
        "secagg/test_client_steps.py::test_two_threads_never_mask_one_round_twice",
    ),
    Mutant(
        "one key joins a key session under two names",
        "secagg/session.py",
        "        require(len(set(keys.values())) == len(everyone), Code.DUPLICATE_KEY)\n",
        "        require(len(set(keys.values())) <= len(everyone), Code.DUPLICATE_KEY)\n",
        "secagg/test_keys.py::test_one_key_under_two_names_is_refused",
    ),
    Mutant(
        "a key session is formed by too few",
        "secagg/session.py",
        "    require(len(everyone) >= parameters.threshold, Code.TOO_FEW)\n",
        "    require(len(everyone) > 1, Code.TOO_FEW)\n",
        "secagg/test_keys.py::test_an_epoch_of_fewer_than_the_threshold_is_refused",
    ),
    Mutant(
        "a peer's ledger may go back",
        "secagg/membership.py",
        "            require(last_head is None or follows(item.head, last_head), "
        "Code.LEDGER_ROLLED_BACK)\n",
        "            _ = follows(item.head, last_head or item.head)\n",
        "secagg/test_heads.py::test_a_site_stops_when_a_peer_has_seen_a_head_ahead_of_its_file",
    ),
    Mutant(
        "a head counts without its owner's signature",
        "secagg/membership.py",
        "if own_head is not None and own_head.is_by(self.roster.sites[self.me]):",
        "if own_head is not None:",
        "secagg/test_heads.py::test_a_false_head_told_by_a_peer_stops_nobody",
    ),
    Mutant(
        "a site does not look at the head that somebody holds of it",
        "secagg/membership.py",
        "        require(mine == result, Code.LEDGER_ROLLED_BACK)\n",
        "        _ = mine == result\n",
        "secagg/test_heads.py"
        "::test_a_site_stops_when_the_coordinator_holds_a_head_ahead_of_its_file",
    ),
    Mutant(
        "a position of 64 bits is read",
        "secagg/encoding.py",
        "    require(number < _LONGEST_COUNT, Code.BAD_MESSAGE)\n",
        "",
        "secagg/test_heads.py::test_a_count_of_more_than_63_bits_is_refused_on_reading",
    ),
    Mutant(
        "the coordinator adds a vector twice",
        "secagg/secure_sum.py",
        "        if sender in self._indices:\n            return\n",
        "",
        "secagg/test_server.py::test_the_coordinator_takes_each_vector_once",
    ),
    Mutant(
        "a late vector is added after the set was closed",
        "secagg/secure_sum.py",
        "        require(self.members is None, Code.OLD_ROUND, sender)\n",
        "",
        "secagg/test_server.py::test_a_late_vector_cannot_be_opened",
    ),
)
