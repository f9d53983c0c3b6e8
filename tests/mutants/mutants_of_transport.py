"""Slips at a site's listener: what is read, what is let through, and in which order."""

from __future__ import annotations

from typing import Final

from mutants.mutant import Mutant

ADMISSION_TESTS: Final = "privacy/test_admission.py"
SLOTS: Final = "federation/test_surface.py"
WIRE: Final = "federation/test_wire.py"
VAULTS: Final = "federation/test_site_store_files.py"

ENDPOINT: Final = (
    Mutant(
        "a bundle is not held against the study",
        "privacy/admission.py",
        "    reason = reason_against(study, bundle)",
        "    reason = None",
        f"{ADMISSION_TESTS}::test_a_hostile_query_gets_a_constant_code_and_costs_nothing",
    ),
    Mutant(
        "rows are read before the charge",
        "federation/client.py",
        "        reply = self.store.transact(",
        "        respond(self.rows, asked, SecretRandomness())\n"
        "        reply = self.store.transact(",
        f"{ADMISSION_TESTS}::test_a_budget_that_says_no_says_so_before_any_row_is_touched",
    ),
    Mutant(
        "a failed computation closes nothing",
        "federation/client.py",
        "        raise rows.close_after(error) from error\n",
        "        raise\n",
        f"{ADMISSION_TESTS}"
        "::test_a_computation_that_fails_is_charged_and_refused_alike_whatever_failed",
    ),
    Mutant(
        "what a refused round taught is kept",
        "federation/client.py",
        "        reply = self.store.transact(charges, request, compute_response, mask_response)\n",
        "        self.receiver.keep(additions)\n"
        "        reply = self.store.transact(charges, request, compute_response, mask_response)\n",
        f"{ADMISSION_TESTS}::test_what_a_refused_round_taught_is_forgotten",
    ),
    Mutant(
        "names outlive their epoch",
        "federation/client.py",
        "            self.receiver.forget()",
        "            pass",
        f"{ADMISSION_TESTS}"
        "::test_names_live_for_one_epoch_and_outlive_an_invitation_that_came_twice",
    ),
    Mutant(
        "an opening that came twice makes a site forget",
        "federation/client.py",
        "        if session != self._session:\n",
        "        if session:\n",
        f"{ADMISSION_TESTS}"
        "::test_names_live_for_one_epoch_and_outlive_an_invitation_that_came_twice",
    ),
    Mutant(
        "an exception leaves the site",
        "federation/client.py",
        "            except Exception as problem:\n",
        "            except SiteRefused as problem:\n",
        f"{ADMISSION_TESTS}::test_a_budget_that_says_no_says_so_before_any_row_is_touched",
    ),
    Mutant(
        "a longer code makes a longer refusal",
        "federation/client.py",
        "return (REFUSED + code.value.encode()).ljust(REFUSAL_BYTES)",
        "return REFUSED + code.value.encode()",
        f"{ADMISSION_TESTS}::test_every_exception_has_one_constant_code",
    ),
    Mutant(
        "a refused budget is an internal error",
        "federation/client.py",
        "return Code.BUDGET_REFUSED",
        "return Code.INTERNAL",
        f"{ADMISSION_TESTS}::test_314_existence_probes_are_refused_or_charged_alike",
    ),
    Mutant(
        "a reply leaves when it is ready",
        "federation/client.py",
        "self._wait(-took % reply_interval)",
        "self._wait(0.0)",
        f"{SLOTS}::test_the_time_of_a_reply_does_not_depend_on_how_many_rows_there_are",
    ),
    Mutant(
        "the interval begins when the work is done",
        "federation/client.py",
        "self._wait(-took % reply_interval)",
        "self._wait(float(reply_interval))",
        f"{SLOTS}::test_a_reply_leaves_at_the_end_of_a_slot_counted_from_its_request",
    ),
    Mutant(
        "messages other than rounds do not keep the interval",
        "federation/client.py",
        "        self._wait_for_the_interval(arrival)\n        return reply\n",
        "        if kind is MessageKind.ROUND:\n"
        "            self._wait_for_the_interval(arrival)\n"
        "        return reply\n",
        f"{SLOTS}::test_a_second_message_does_not_tell_how_long_a_round_took[JOIN]",
    ),
    Mutant(
        "refusals do not keep the interval",
        "federation/client.py",
        "        self._wait_for_the_interval(arrival)\n        return reply\n",
        "        if not reply.startswith(REFUSED):\n"
        "            self._wait_for_the_interval(arrival)\n"
        "        return reply\n",
        f"{SLOTS}::test_a_refusal_and_bytes_sent_again_keep_the_slot_as_well",
    ),
    Mutant(
        "labels that are told at random cost nothing",
        "federation/client.py",
        "            self.store.enter(entry)\n",
        "            _ = entry\n",
        f"{VAULTS}::test_a_site_charges_for_told_labels_itself_once_over_restarts",
    ),
    Mutant(
        "an endpoint serves any study",
        "federation/client.py",
        "if study.hash != site.study_hash or identities != roster:",
        "if identities != roster:",
        f"{ADMISSION_TESTS}"
        "::test_an_endpoint_serves_the_study_that_its_site_speaks_for_and_no_other",
    ),
)

READING_MESSAGES: Final = (
    Mutant(
        "a key may stand twice",
        "federation/wire.py",
        "if len(result) != len(pairs):",
        "if not result:",
        f"{WIRE}::test_json_with_surprises_is_refused",
    ),
    Mutant(
        "NaN is a number",
        "federation/wire.py",
        'raise ParameterError(f"{name} is no number.")',
        "return float(name)",
        f"{WIRE}::test_json_with_surprises_is_refused",
    ),
    Mutant(
        "numbers have digits without end",
        "federation/wire.py",
        "if len(digits) > MOST_INTEGER_DIGITS:",
        "if len(digits) > 100 * MOST_INTEGER_DIGITS:",
        f"{WIRE}::test_json_with_surprises_is_refused",
    ),
    Mutant(
        "lists may be nested deeper",
        "federation/wire.py",
        "for _ in range(MOST_DEPTH):",
        "for _ in range(2 * MOST_DEPTH):",
        f"{WIRE}::test_json_with_surprises_is_refused",
    ),
    Mutant(
        "what follows a rational is not read",
        "federation/wire.py",
        "RATIONAL.fullmatch(text) is None",
        "RATIONAL.match(text) is None",
        f"{WIRE}::test_a_rational_is_two_whole_numbers_of_64_digits_at_most",
    ),
    Mutant(
        "a bundle may be of any length",
        "federation/wire.py",
        "if bundle.size > MOST_BYTES:",
        "if bundle.size < 0:",
        f"{WIRE}::test_a_bundle_that_is_too_long_is_refused_before_it_is_read",
    ),
    Mutant(
        "a key session has room for any number of names",
        "federation/wire.py",
        "if len(self.definitions) + len(additions) > MOST_NAMES:",
        "if len(self.definitions) > len(additions) + MOST_NAMES:",
        f"{WIRE}::test_an_epoch_has_room_for_so_many_names",
    ),
    Mutant(
        "every value may have a name",
        "federation/wire.py",
        "if not isinstance(value, (*_NAMED, models.Additive, Layer, _Path)):",
        "if value is None:",
        f"{WIRE}::test_only_large_values_have_names",
    ),
    Mutant(
        "tests are unpacked however many there are",
        "federation/wire.py",
        "if self.room < 0:",
        "if self.room < -MOST_TESTS:",
        f"{WIRE}::test_a_bundle_has_room_for_so_many_tests",
    ),
    Mutant(
        "a number is a query",
        "federation/wire.py",
        "if not isinstance(value, Query):",
        "if value is None:",
        f"{ADMISSION_TESTS}::test_bytes_that_are_no_bundle_are_a_bad_message",
    ),
    Mutant(
        "a name that nobody defined is a bad message",
        "federation/wire.py",
        "raise SiteRefused(Code.UNKNOWN_NAME.value) from None",
        "raise SiteRefused(Code.BAD_MESSAGE.value) from None",
        f"{ADMISSION_TESTS}"
        "::test_a_site_that_lacks_a_name_says_so_and_gets_the_same_questions_again",
    ),
    Mutant(
        "what another site of the process has read is known to all",
        "federation/wire.py",
        "key = (self.past, bundle)",
        'key = (b"", bundle)',
        f"{WIRE}::test_names_that_another_site_knows_are_unknown_here",
    ),
    Mutant(
        "a name stays what it first meant",
        "federation/wire.py",
        "digest = hashlib.sha256(blob).hexdigest()\n        value =",
        "digest = hashlib.sha256(blob[:9]).hexdigest()\n        value =",
        f"{ADMISSION_TESTS}"
        "::test_a_name_is_the_digest_of_its_content_and_is_counted_by_the_receiver",
    ),
)

ADMITTING: Final = (
    Mutant(
        "types of values are not looked at",
        "privacy/admission.py",
        "        _strict(tuple(STATISTICS.values()), tuple(GROUPINGS.values())).fields(query)\n"
        "        or _of_no_part",
        "        None\n        or _of_no_part",
        f"{ADMISSION_TESTS}::test_what_no_recipe_would_ask_is_refused",
    ),
    Mutant(
        "every kind of query is asked by every method",
        "privacy/admission.py",
        "    if kind in (study.asks_held_out if is_held_out else study.admitted):",
        "    if kind:",
        f"{ADMISSION_TESTS}::test_only_what_the_recipe_asks_is_admitted",
    ),
    Mutant(
        "records that are held out are asked whatever the learner asks",
        "privacy/admission.py",
        "    if kind in (study.asks_held_out if is_held_out else study.admitted):",
        "    if kind in study.admitted | study.asks_held_out:",
        "deployment/test_held_out.py"
        "::test_a_site_admits_of_each_part_what_the_study_says_of_that_part",
    ),
    Mutant(
        "a query need not say whether it is of records that are held out",
        "privacy/admission.py",
        "        or _of_no_part(study, query)\n",
        "",
        "deployment/test_held_out.py"
        "::test_a_site_admits_of_each_part_what_the_study_says_of_that_part",
    ),
    Mutant(
        "a query is not held against the schema",
        "privacy/admission.py",
        "        or query.incompatibility(study.schema)\n",
        "",
        f"{ADMISSION_TESTS}::test_what_no_recipe_would_ask_is_refused",
    ),
    Mutant(
        "a share may exceed the budget",
        "privacy/admission.py",
        "if not 0 < fraction.numerator <= fraction.denominator < MAX_FRACTION_DIGITS:",
        "if not 0 < fraction.numerator or not fraction.denominator < MAX_FRACTION_DIGITS:",
        f"{ADMISSION_TESTS}::test_a_share_is_a_part_of_the_budget",
    ),
    Mutant(
        "a bundle may ask for any number of integers",
        "privacy/admission.py",
        "if size > MOST_INTEGERS else None",
        "if size < 0 else None",
        f"{ADMISSION_TESTS}::test_so_many_integers_leave_a_site_and_no_more",
    ),
    Mutant(
        "a bundle may hold any number of queries",
        "privacy/admission.py",
        "if not 0 < len(bundle) <= MOST_QUERIES:",
        "if not 0 < len(bundle):",
        f"{ADMISSION_TESTS}::test_bundles_have_an_end",
    ),
    Mutant(
        "a vector may be longer than the clamp can hold",
        "privacy/admission.py",
        'return "a record\'s vector is too long for its unit" if too_large else None',
        'return "a record\'s vector is too long for its unit" if too_large is None else None',
        f"{ADMISSION_TESTS}::test_a_record_s_vector_must_fit_the_clamp",
    ),
    Mutant(
        "noise that cannot be drawn is found out after the charge",
        "privacy/admission.py",
        "        or _cannot_be_priced(study, query)\n",
        "",
        f"{ADMISSION_TESTS}::test_noise_that_cannot_be_drawn_is_not_promised",
    ),
)
