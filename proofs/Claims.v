(* The claims. This is the file to read: what hedgerow's privacy argument says, in the order in which
   a number leaves a site. Nothing here is proved anew; each claim names the theorem that it is.
   The definitions it speaks of are few and short, and named beside it. Everything that is not privacy is a variable: which records there are, what they hold, how a
   learner chooses its next query. Two databases are neighbours if one has the records of the other
   and up to m records of one person more. `vector` is a list of integers.

   Not here: Gaussian noise in mu-GDP, its shares, exp and log in integers, floats. docs/proofs/evidence.md
   lists what is proved on paper, what is tested and what is assumed. *)
From Coq Require Import Reals ZArith List Arith Bool.
From Hedgerow Require Import Sums Sensitivity Laplace Gaussian Ledger Selection PermuteAndFlip Bounds
  Guarantee Rho Tables Masks Protocol Store.
Import ListNotations.
Open Scope Z_scope.

(* ============================================================================= 1. Sensitivity
   A sum query has `groups` groups of `cells` cells; a record falls in one cell of each group and
   adds a vector of `channels` integers there (Sensitivity.v: `answer`). What it adds is any function
   of the record, with whatever floats, trees and models inside; `clamped` replaces a vector beyond
   the declared bound by zeros. Then one record moves the answer by at most the bound times the
   groups in L1 and squared L2, and by the bound in Linf: `SumQuery.sensitivity`. *)
Section Sensitivity_claims.
  Variables (record : Type) (groups cells channels : nat).
  Variables (cell : nat -> record -> nat) (contribution : record -> vector).
  Variables (bound : sensitivity) (in_region : record -> bool).
  Hypothesis cell_exists : forall g r, (cell g r < cells)%nat.
  Hypothesis channels_fit : forall r, length (contribution r) = channels.
  Hypothesis bound_positive : positive bound.
  Notation query := (answer record groups cells channels cell contribution bound in_region).

  Theorem claim_sensitivity : forall before after z,
    within (repeated bound groups) (vsub (query (before ++ z :: after)) (query (before ++ after))).
  Proof. intros. apply add_or_remove; assumption. Qed.

  (* Up to m records of one person: m in L1 and Linf, m^2 in squared L2 (`of_person`). *)
  Theorem claim_sensitivity_of_a_person : forall person rows, person <> [] ->
    within (of_person (repeated bound groups) (Z.of_nat (length person)))
           (vsub (query (person ++ rows)) (query rows)).
  Proof. intros. apply add_or_remove_person; assumption. Qed.

  Theorem claim_outside_the_region : forall before after z, in_region z = false ->
    query (before ++ z :: after) = query (before ++ after).
  Proof. intros. apply outside; assumption. Qed.
End Sensitivity_claims.

(* The bounds that statistics declare are one table, `bound_of` of Bounds.v: the code's numbers are
   held against it, as equalities. The three that matter most are never reached by the clamp. *)
Theorem claim_log_loss_is_not_clamped : forall unit p, 0 < unit -> (0 <= p <= 1)%R ->
  within (bound_of (Gradients LogLoss) unit)
         (Losses.units unit [(p - 1)%R; (333 / 100 * (p * (1 - p)))%R]).
Proof. exact log_loss_not_clamped. Qed.

Theorem claim_times_are_not_clamped : forall unit a b, 0 < unit -> (0 <= a <= 1)%R -> (0 <= b <= 1)%R ->
  within (bound_of (Gradients OddsLoss) unit)
         (Losses.units unit [(a + b - 1)%R; (2 * (a * (1 - a) + b * (1 - b)))%R]).
Proof. exact odds_loss_not_clamped. Qed.

Theorem claim_counts_are_not_clamped : forall channels k unit,
  within (bound_of ClassCounts unit) (one_hot channels k).
Proof. exact counts_not_clamped. Qed.

(* =================================================================================== 2. Noise
   `release rate x y`: the probability that x, with discrete Laplace noise of this rate on each
   entry, is seen as y (Laplace.v). With rate = cost / L1 a change within L1 costs at most `cost`. *)
Theorem claim_discrete_laplace : forall cost bound x x' y,
  (0 < cost)%R -> 1 <= bound -> length x = length x' -> L1 (vsub x x') <= bound ->
  (release (cost / IZR bound) x y <= exp cost * release (cost / IZR bound) x' y)%R.
Proof. exact release_costs. Qed.

(* h sites add X - Y each, X and Y of `polya rate (1 / h)`: h shares have the law of the whole, whatever
   the others are. h is threshold - colluders, the honest summands that every sum has (7). Others may add,
   or know, what they like: `extra n` with probability `weight n` makes the release no dearer. *)
Theorem claim_shares_sum_to_laplace : forall rate h z, (0 < rate)%R -> (0 < h)%nat ->
  difference_law (sum_of_draws (polya rate (1 / INR h)) h) z (laplace rate z).
Proof. exact shares_sum_to_laplace. Qed.

Theorem claim_more_noise_costs_no_more : forall cost bound x x' y weight extra p p',
  (0 < cost)%R -> 1 <= bound -> length x = length x' -> L1 (vsub x x') <= bound ->
  (forall n, 0 <= weight n)%R -> (forall n, length (extra n) = length x) ->
  infinite_sum (fun n => weight n * release (cost / IZR bound) (vadd x (extra n)) y)%R p ->
  infinite_sum (fun n => weight n * release (cost / IZR bound) (vadd x' (extra n)) y)%R p' -> (p <= exp cost * p')%R.
Proof. exact more_noise_costs_no_more. Qed.

(* A draw looks random bits up in a table of thresholds (Tables.v: `draw`, 64 bits at first, the other 128
   for ties). Of all bits, as many draw an entry as lie between its thresholds. A table whose thresholds
   are within 2 of N times a law gives no event, nor any f between 0 and 1, another chance by more than
   2 entries / N; in a run slacks add (Tables.v: `slacks_add`), and they are paid for in delta. *)
Theorem claim_bits_of_an_entry : forall unit words ts k n, 0 < unit -> 0 < words -> Z.of_nat n = words * unit ->
  rising ts -> (k < length ts)%nat -> (forall i, (i < length ts)%nat -> 0 <= threshold ts i <= words * unit) ->
  counted (fun x => Nat.eqb (draw unit words ts (x / unit) (x mod unit)) k) n
  = end_of (words * unit) ts k - start_of ts k.
Proof. exact bits_of_an_entry. Qed.

Theorem claim_slack_of_a_table : forall N ts Q f, 0 < N -> within_one f -> ts <> [] ->
  (forall k, (k < length ts)%nat -> Rabs (IZR (end_of N ts k) - IZR N * Q k) <= 2)%R ->
  (Rabs (mean (table_chance N ts) f (length ts) - law_mean Q f (length ts)) <= 2 * INR (length ts) / IZR N)%R.
Proof. exact slack_of_a_table. Qed.

Theorem claim_slack_adds_to_delta : forall epsilon delta slack p q p' q',
  (p <= exp epsilon * q + delta -> Rabs (p' - p) <= slack -> Rabs (q' - q) <= slack ->
   p' <= exp epsilon * q' + (delta + (1 + exp epsilon) * slack))%R.
Proof. exact slack_adds_to_delta. Qed.

(* ============================================================================= 3. Selections
   Integer scores; one record moves all of them by amounts in [low, low + range] (`moved`). The
   exponential mechanism, permute-and-flip (as the algorithm's own recursion, PermuteAndFlip.v) and
   report noisy max then cost c * range, both ways round since `moved` is symmetric (`moved_back`). *)
Theorem claim_exponential_mechanism : forall c low range u u' i,
  (0 <= c)%R -> 0 <= range -> moved low range u u' ->
  (exponential c u i <= exp (c * IZR range) * exponential c u' i)%R.
Proof. exact exponential_ratio. Qed.

Theorem claim_permute_and_flip : forall c low range u u' i,
  (0 <= c)%R -> 0 <= range -> moved low range u u' ->
  (permute_and_flip c u i <= exp (c * IZR range) * permute_and_flip c u' i)%R.
Proof. exact permute_and_flip_ratio. Qed.

(* Discrete Laplace noise on each score, among equals the first (Selection.v: `wins_with`). *)
Theorem claim_report_noisy_max : forall c low range u u' i,
  (0 <= c)%R -> 0 <= range -> moved low range u u' ->
  (noisy_max c u i <= exp (c * IZR range) * noisy_max c u' i)%R.
Proof. exact report_noisy_max_ratio. Qed.

(* ================================================================================== 4. Ledger
   A charge is (region, cost); a region is a list of (test, outcome). `paid`: the costs of the
   charges whose region a record is in. `worst_total`: at a node its own charges plus, for every test,
   the worst of its outcomes. No record pays more. *)
Theorem claim_ledger : forall (test outcome : Type) test_eq outcome_eq (record : Type)
  (outcome_of : record -> test -> outcome) depth r cs, nonneg test outcome cs ->
  paid test outcome outcome_eq record outcome_of r cs <= worst_total test outcome test_eq outcome_eq depth cs.
Proof. exact no_record_pays_more. Qed.

(* With delta > 0 selections stand among Gaussian sums. A run is a tree: it ends, asks a sum that costs
   mu^2, or selects; a selection has two likelihood ratios, exp high and exp (high - apart), and may cost
   c if the ledger keeps back mu^2 = s and apart^2 / 4 <= c s / (c + s) (`taken`). Whatever is chosen by
   earlier answers, the run keeps what Gaussian noise of the whole budget keeps, at every epsilon.
   `gaussian v a` is the delta of noise of mu^2 = v at epsilon a. Assumed of Gaussian noise: the
   integral of its density, that sums may adapt and add up, and that more of it keeps less. *)
Theorem claim_selections_among_sums : forall gaussian sum_then,
  (forall v, 0 < v -> AmongSums.line_integral (AmongSums.normal v 0) 1)%R ->
  (forall v a, 0 < v -> AmongSums.line_integral
     (fun x => AmongSums.beyond a x * AmongSums.normal v (- v / 2) x) (gaussian v a))%R ->
  (forall c f g, (forall y, Ledger.below (f y) g) -> Ledger.below (sum_then c f) (sum_then c (fun _ => g))) ->
  (forall c s, 0 <= c -> 0 <= s -> Ledger.below (sum_then c (fun _ => gaussian s)) (gaussian (c + s)))%R ->
  (forall s m, 0 <= s <= m -> Ledger.below (gaussian s) (gaussian m))%R ->
  forall run left, Ledger.taken left run -> Ledger.below (Ledger.profile_of gaussian sum_then run) (gaussian left).
Proof.
  intros gaussian sum_then mass deltas adapt add more. apply filter_of_selections_among_sums; try assumption.
  intros c s high apart weight C S W M P a. apply AmongSums.one_selection_among_sums; assumption.
Qed.

(* =============================================================================== 5. Guarantee
   The whole for pure epsilon. A site answers sum queries (clamped, with discrete Laplace noise of
   rate cost / L1) and selections (by any `mechanism`, claim 3) from a learner that may choose each
   query by all earlier replies; a query that the ledger's total does not admit is refused. Costs are
   integers; one of them is worth `unit` of epsilon. Then for neighbours, every transcript and every
   countable set of transcripts, in both directions: a factor of at most exp(unit * budget).
   Selections by Gini, squared error or balance are such queries: `GiniSelection` ... of Splits.v. Read in
   Guarantee.v: `sum_query`, `selection_query`, `rate`, `coefficient`, `law`, `neighbours`; in Ledger.v: `probability`. *)
Section Guarantee_claims.
  Variables record test outcome : Type.
  Variable test_eq : forall a b : test, {a = b} + {a <> b}.
  Variable outcome_eq : forall a b : outcome, {a = b} + {a <> b}.
  Variable outcome_of : record -> test -> outcome.
  Variables (unit : R) (budget m : Z).
  Hypothesis unit_positive : (0 < unit)%R.
  Hypothesis budget_nonnegative : 0 <= budget.
  Hypothesis m_positive : 0 < m.
  Variable learner : list (response reply) -> option (question record test outcome outcome_eq outcome_of).
  Notation P := (transcript_probability record test outcome test_eq outcome_eq outcome_of unit budget m learner).

  Theorem claim_guarantee : forall smaller bigger transcript, neighbours record m smaller bigger ->
    (P smaller transcript <= exp (unit * IZR budget) * P bigger transcript)%R /\
    (P bigger transcript <= exp (unit * IZR budget) * P smaller transcript)%R.
  Proof. intros. apply guarantee; assumption. Qed.

  Theorem claim_guarantee_of_events : forall smaller bigger event p p', neighbours record m smaller bigger ->
    infinite_sum (fun n => P smaller (event n)) p -> infinite_sum (fun n => P bigger (event n)) p' ->
    (p <= exp (unit * IZR budget) * p')%R /\ (p' <= exp (unit * IZR budget) * p)%R.
  Proof. intros. eapply guarantee_of_countable_events; eassumption. Qed.

(* ==================================================================== 6. Guarantee with delta > 0
   The same through rho (zCDP): sums with discrete Gaussian noise of variance L2^2 / (2 cost), one cost
   worth `unit` of rho. For every order k + 1, every event over runs of at most n steps whose answers
   are in a finite list (however long): at most exp(epsilon) times, plus delta_of_rho. What is asked of
   the normaliser is that it is at least every finite sum; claim_normaliser_exists says it can be had.
   Read in Rho.v: `gaussian_release`, `variance`, `run_probability`, `delta_of_moment`. *)
  Variable normaliser : R -> R.
  Hypothesis normaliser_positive : forall s, (0 < s)%R -> (0 < normaliser s)%R.
  Hypothesis normaliser_bounds : forall s ks, (0 < s)%R -> NoDup ks -> (gaussian_weights s ks <= normaliser s)%R.
  Variable rho_learner : list (response vector) -> option (sum_query record test outcome).
  Variable answers : list vector.
  Hypothesis answers_distinct : NoDup answers.
  Variable event : list (response vector) -> bool.
  Notation Q rows n := (run_probability record test outcome test_eq outcome_eq outcome_of unit budget m
                          normaliser rho_learner answers event rows n [] []).

  Theorem claim_guarantee_through_rho : forall k epsilon n smaller bigger,
    (0 < k)%nat -> neighbours record m smaller bigger ->
    (Q smaller n <= exp epsilon * Q bigger n + delta_of_rho unit budget k epsilon)%R /\
    (Q bigger n <= exp epsilon * Q smaller n + delta_of_rho unit budget k epsilon)%R.
  Proof. intros. apply guarantee_through_rho; assumption. Qed.
End Guarantee_claims.

(* It is about something: a two-step learner has positive probabilities, and its third query is refused. *)
Theorem claim_guarantee_is_not_empty : forall rows x y a b,
  (0 < example_probability rows [Answered _ (Numbers [x; y]); Answered _ (Numbers [a; b]); Refused _])%R.
Proof. exact guarantee_is_not_empty. Qed.

Theorem claim_normaliser_exists : exists normaliser : R -> R, (forall s, 0 < s -> 0 < normaliser s)%R /\
  forall s ks, (0 < s)%R -> NoDup ks -> (gaussian_weights s ks <= normaliser s)%R.
Proof. exact normaliser_exists. Qed.

(* ============================================================================== 7. Secure sum
   Masks are integers modulo M; ideal, that is uniform and independent. What the coordinator opens
   is the sum of the members, also when sites were lost after they had sent. *)
Theorem claim_opened_number_is_the_sum : forall M x b p members lost,
  (sum_over members (masked M x b p (members ++ lost))
   - sum_over members b - sum_over members (fun i => sum_over lost (signed_mask p i))) mod M
  = (sum_over members x) mod M.
Proof. exact opened_is_the_sum. Qed.

(* Whoever knows neither the pair masks among some honest sites nor anything else of them sees their sum and no
   more: inputs with the same sum give the same masked vectors under shifted masks; shifting is a bijection. *)
Theorem claim_only_the_sum_is_seen : forall M h0 rest others x y,
  NoDup (h0 :: rest) -> (forall i, In i others -> ~ In i (h0 :: rest)) ->
  (sum_over (h0 :: rest) x) mod M = (sum_over (h0 :: rest) y) mod M ->
  exists shift : nat -> nat -> Z,
    (forall i j, shift i j <> 0 -> In i (h0 :: rest) /\ In j (h0 :: rest)) /\
    (forall b p i, In i (h0 :: rest) ->
      masked M x b p ((h0 :: rest) ++ others) i =
      masked M y b (fun i j => p i j + shift i j) ((h0 :: rest) ++ others) i).
Proof. exact only_the_sum_is_seen. Qed.

(* Whatever the coordinator and the colluders ask of honest sites in a round, in any order, each sum
   that can be computed has at least threshold - colluders honest summands (Protocol.v: `step`,
   `computable`). *)
Theorem claim_enough_honest_summands : forall participants colluders threshold s summands,
  Protocol.reachable participants colluders threshold s ->
  computable participants colluders threshold s summands ->
  exists members, NoDup members /\ (threshold - length colluders <= length members)%nat /\
    forall i, In i members -> summands i.
Proof. exact enough_honest_summands. Qed.

(* Rounds in one exchange (protocol version 3): pair masks alone, bound to the participants that a site
   was named; it answers once. The same bound, and no two open sums share an honest site. *)
Theorem claim_at_once_opens_the_sum : forall M x p members,
  (sum_over members (masked M x (fun _ => 0) p members)) mod M = (sum_over members x) mod M.
Proof. exact at_once_is_the_sum. Qed.

Theorem claim_enough_honest_summands_at_once : forall colluders threshold s summands,
  answered colluders threshold s -> at_once_computable colluders s summands ->
  exists members, NoDup members /\ (threshold - length colluders <= length members)%nat /\
    forall i, In i members -> summands i.
Proof. exact enough_honest_summands_at_once. Qed.

Theorem claim_opened_sums_are_disjoint : forall colluders s p q i,
  opened_at_once colluders s p -> opened_at_once colluders s q ->
  honest colluders i -> In i p -> In i q -> p = q.
Proof. exact opened_sums_are_disjoint. Qed.

(* Witnesses (protocol version 3): a set that threshold - colluders honest sites have opened stays the
   only one, if a restarted site asks participants - threshold + colluders + 1 others to bind themselves
   to the set it opens. *)
Theorem claim_no_second_set_by_witnesses : forall participants colluders threshold
  (bound_to : nat -> Protocol.set) first second old witnesses,
  NoDup old -> incl old participants -> (threshold - length colluders <= length old)%nat ->
  (forall i, In i old -> honest colluders i /\ bound_to i = first) ->
  NoDup witnesses -> incl witnesses participants ->
  (length participants - threshold + length colluders + 1 <= length witnesses)%nat ->
  (length colluders < threshold)%nat -> (threshold <= length participants)%nat ->
  (forall i, In i witnesses -> honest colluders i -> bound_to i = second) ->
  first = second.
Proof. exact no_second_set_by_witnesses. Qed.

(* ============================================================================= 8. Durable charges
   The store of a site, over crashes, restarts and files that somebody rolled back (Store.v: `step`).
   While the file is not older than the rollback anchor, what was sent is charged in it; no round has
   two replies or two opened sets, ever; the cap holds; a file older than the anchor stays silent. *)
Section Store_claims.
  Variables (request message member_set : Type) (cost : nat -> Z) (cap : Z).
  Hypothesis cost_nonnegative : forall round, 0 <= cost round.
  Hypothesis cap_nonnegative : 0 <= cap.
  Notation reachable := (Store.reachable request message member_set cost cap).

  Theorem claim_no_reply_without_a_durable_charge : forall s r m, reachable s ->
    in_step request message member_set s -> In (Reply _ _ r m) (wire _ _ _ s) ->
    exists q, In (Charged _ _ _ r q m) (file _ _ _ s).
  Proof. exact (no_reply_without_a_durable_charge request message member_set cost cap cost_nonnegative cap_nonnegative). Qed.

  Theorem claim_one_reply_a_round : forall s r m m', reachable s ->
    In (Reply _ _ r m) (wire _ _ _ s) -> In (Reply _ _ r m') (wire _ _ _ s) -> m = m'.
  Proof. exact (no_second_reply_with_other_noise request message member_set cost cap cost_nonnegative cap_nonnegative). Qed.

  Theorem claim_one_opened_set_a_round : forall s r x y, reachable s ->
    In (SignedSet _ _ r x) (wire _ _ _ s) -> In (SignedSet _ _ r y) (wire _ _ _ s) -> x = y.
  Proof. exact (no_second_set request message member_set cost cap cost_nonnegative cap_nonnegative). Qed.

  Theorem claim_budget_cap : forall s, reachable s -> spent _ _ _ cost (file _ _ _ s) <= cap.
  Proof. exact (never_beyond_the_cap request message member_set cost cap cost_nonnegative cap_nonnegative). Qed.
End Store_claims.
