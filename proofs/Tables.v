(* Draws by cumulative tables: privacy/mechanisms/sampling.py.

   `thresholds` are integers below 2^192, not decreasing; a uniform integer x of 192 bits falls in the first
   entry whose threshold is above x, or in the last one. The code keeps 64 bits of each threshold and looks at
   64 bits of x; a tie gets the other 128. Here 2^64 is `words` and 2^128 is `unit`: any numbers. *)
From Coq Require Import Reals ZArith List Lia Lra Arith Bool.
From Hedgerow Require Import Laplace.
Import ListNotations.
Open Scope Z_scope.

(* The first entry above x; their number where there is none. *)
Fixpoint walk (thresholds : list Z) (x : Z) : nat :=
  match thresholds with
  | [] => O
  | t :: rest => if x <? t then O else S (walk rest x)
  end.
Definition entry_of (thresholds : list Z) (x : Z) : nat := Nat.min (walk thresholds x) (pred (length thresholds)).
Definition threshold (thresholds : list Z) (k : nat) : Z := nth k thresholds 0.
Definition rising (thresholds : list Z) : Prop :=
  forall i j, (i <= j < length thresholds)%nat -> threshold thresholds i <= threshold thresholds j.

(* ------------------------------------------------------------------------------------- the walk *)
Lemma walk_passed : forall t x i, (i < walk t x)%nat -> threshold t i <= x.
Proof.
  induction t as [|a t IH]; intros x i H; simpl in H; [lia|].
  destruct (Z.ltb_spec x a); [lia|]. destruct i as [|i]; [exact H0|]. apply (IH x i). lia.
Qed.
Lemma walk_stops : forall t x, (walk t x < length t)%nat -> x < threshold t (walk t x).
Proof.
  induction t as [|a t IH]; intros x H; simpl in *; [lia|].
  destruct (Z.ltb_spec x a); [exact H0|]. apply IH. lia.
Qed.
Lemma walk_short : forall t x, (walk t x <= length t)%nat.
Proof. induction t as [|a t IH]; intro x; simpl; [lia|]. destruct (x <? a); [lia|]. specialize (IH x). lia. Qed.
Lemma walk_is : forall t x k, (k < length t)%nat -> (forall i, (i < k)%nat -> threshold t i <= x) ->
  x < threshold t k -> walk t x = k.
Proof.
  intros t x k K P A. destruct (Nat.lt_trichotomy (walk t x) k) as [L|[E|G]]; [|exact E|].
  - specialize (P _ L). pose proof (walk_stops t x). lia.
  - pose proof (walk_passed t x k G). lia.
Qed.

(* Starting at the guide's entry, that of a smaller word, leads to the same. *)
Theorem guide_is_safe : forall t first w, first <= w ->
  walk t w = (walk t first + walk (skipn (walk t first) t) w)%nat.
Proof.
  induction t as [|a t IH]; intros first w H; [reflexivity|]. simpl.
  destruct (Z.ltb_spec first a); [reflexivity|].
  destruct (Z.ltb_spec w a); [lia|]. simpl. rewrite <- (IH first w H). reflexivity.
Qed.

(* How many of the numbers below n have a property. *)
Fixpoint counted (has : Z -> bool) (n : nat) : Z :=
  match n with O => 0 | S m => counted has m + (if has (Z.of_nat m) then 1 else 0) end.

Lemma counted_ext : forall f g n, (forall x, 0 <= x < Z.of_nat n -> f x = g x) -> counted f n = counted g n.
Proof.
  intros f g n. induction n as [|n IH]; intro E; [reflexivity|]. cbn [counted].
  rewrite IH by (intros; apply E; lia). rewrite E by lia. reflexivity.
Qed.
Lemma counted_between : forall a b n, 0 <= a <= b ->
  counted (fun x => (a <=? x) && (x <? b)) n = Z.min b (Z.of_nat n) - Z.min a (Z.of_nat n).
Proof.
  intros a b n H. induction n as [|n IH]; [simpl; lia|]. cbn [counted]. rewrite IH.
  destruct (Z.leb_spec a (Z.of_nat n)); destruct (Z.ltb_spec (Z.of_nat n) b); cbn [andb]; lia.
Qed.

(* Of N words those in entry k: from the threshold before it up to its own, to N for the last. *)
Definition end_of (N : Z) (t : list Z) (k : nat) : Z :=
  if Nat.eqb (S k) (length t) then N else threshold t k.
Definition start_of (t : list Z) (k : nat) : Z := match k with O => 0 | S j => threshold t j end.

Theorem words_of_an_entry : forall t n k, rising t -> (k < length t)%nat ->
  (forall i, (i < length t)%nat -> 0 <= threshold t i <= Z.of_nat n) ->
  counted (fun x => Nat.eqb (entry_of t x) k) n = end_of (Z.of_nat n) t k - start_of t k.
Proof.
  intros t n k R K B.
  assert (S0 : 0 <= start_of t k <= Z.of_nat n) by (unfold start_of; destruct k; [lia|apply B; lia]).
  assert (E0 : start_of t k <= end_of (Z.of_nat n) t k <= Z.of_nat n).
  { unfold end_of. destruct (Nat.eqb_spec (S k) (length t)); [lia|].
    split; [|apply B; lia]. unfold start_of. destruct k; [apply B; lia|apply R; lia]. }
  transitivity (counted (fun x => (start_of t k <=? x) && (x <? end_of (Z.of_nat n) t k)) n).
  - apply counted_ext. intros x X.
    assert (A : entry_of t x = k <-> start_of t k <= x < end_of (Z.of_nat n) t k).
    { unfold entry_of, end_of, start_of. pose proof (walk_short t x).
      destruct (Nat.eqb_spec (S k) (length t)) as [L|L].
      - split.
        + intro M. split; [|lia]. destruct k as [|j]; [lia|]. apply walk_passed. lia.
        + intros [P _]. enough (k <= walk t x)%nat by lia.
          destruct (Nat.le_gt_cases k (walk t x)) as [G|G]; [exact G|exfalso].
          destruct k as [|j]; [lia|]. pose proof (walk_stops t x ltac:(lia)).
          pose proof (R (walk t x) j ltac:(lia)). lia.
      - split.
        + intro M. assert (W : walk t x = k) by lia. split.
          * destruct k as [|j]; [lia|]. apply walk_passed. lia.
          * rewrite <- W at 1. apply walk_stops. lia.
        + intros [P Q]. rewrite (walk_is t x k); [lia|exact K| |exact Q].
          intros i I. destruct k as [|j]; [lia|]. pose proof (R i j ltac:(lia)). lia. }
    destruct (Nat.eqb_spec (entry_of t x) k) as [E|E];
      destruct (Z.leb_spec (start_of t k) x); destruct (Z.ltb_spec x (end_of (Z.of_nat n) t k));
      cbn [andb]; try reflexivity; exfalso; first [apply A in E; lia|apply E, A; lia].
  - rewrite counted_between by lia. lia.
Qed.

(* --------------------------------------------------------------------- the kept part of a table *)
Section Kept.
  Variables unit words : Z.
  Hypothesis unit_positive : 0 < unit.
  Hypothesis words_positive : 0 < words.

  (* `table_of`: the first 64 bits of each threshold, up to the first that is the last word; of leading
     zeros one stays. *)
  Definition cut (t : Z) : Z := Z.min (t / unit) (words - 1).
  Fixpoint until_last (ts : list Z) : list Z :=
    match ts with [] => [] | t :: rest => if t =? words - 1 then [t] else t :: until_last rest end.
  Fixpoint zeros (ts : list Z) : nat :=
    match ts with t :: rest => if t =? 0 then S (zeros rest) else O | [] => O end.
  Definition short (thresholds : list Z) : list Z := until_last (map cut thresholds).
  Definition surplus (thresholds : list Z) : nat := pred (zeros (short thresholds)).
  Definition kept (thresholds : list Z) : list Z := skipn (surplus thresholds) (short thresholds).

  (* `search`: a word that equals the threshold before its entry, or is beyond the last, is a tie. *)
  Definition tied (ts : list Z) (word : Z) : bool :=
    let k := walk ts word in
    Nat.eqb k (length ts) || match k with O => false | S j => threshold ts j =? word end.
  Definition draw (thresholds : list Z) (word more : Z) : nat :=
    if tied (kept thresholds) word then entry_of thresholds (word * unit + more)
    else (surplus thresholds + walk (kept thresholds) word)%nat.

  Lemma nth_skipped : forall s (ts : list Z) i, threshold (skipn s ts) i = threshold ts (s + i).
  Proof.
    induction s as [|s IH]; intros ts i; [reflexivity|].
    destruct ts as [|t ts]; [simpl; destruct i; reflexivity|]. apply IH.
  Qed.
  Lemma until_last_is : forall ts i, (i < length (until_last ts))%nat ->
    threshold (until_last ts) i = threshold ts i.
  Proof.
    induction ts as [|t ts IH]; intros i H; simpl in *; [lia|].
    destruct (t =? words - 1); destruct i as [|i]; simpl in *; try reflexivity; try lia. apply IH. lia.
  Qed.
  Lemma until_last_short : forall ts, (length (until_last ts) <= length ts)%nat.
  Proof. induction ts as [|t ts IH]; simpl; [lia|]. destruct (t =? words - 1); simpl; lia. Qed.
  Lemma short_is : forall ts i, (i < length (short ts))%nat -> threshold (short ts) i = cut (threshold ts i).
  Proof.
    intros ts i H. unfold short in *. rewrite until_last_is by exact H. unfold threshold.
    pose proof (until_last_short (map cut ts)) as S. rewrite map_length in S.
    rewrite (nth_indep _ 0 (cut 0)) by (rewrite map_length; lia). apply map_nth.
  Qed.
  Lemma zeros_are : forall ts i, (i < zeros ts)%nat -> threshold ts i = 0.
  Proof.
    induction ts as [|t ts IH]; intros i H; simpl in H; [lia|].
    destruct (Z.eqb_spec t 0); [|lia]. destruct i as [|i]; [exact e|]. apply IH. lia.
  Qed.
  Lemma zeros_short : forall ts, (zeros ts <= length ts)%nat.
  Proof. induction ts as [|t ts IH]; simpl; [lia|]. destruct (t =? 0); lia. Qed.

  (* Word and more bits together draw what the whole table draws. *)
  Theorem draw_is_the_walk : forall thresholds word more, rising thresholds ->
    0 <= word < words -> 0 <= more < unit ->
    draw thresholds word more = entry_of thresholds (word * unit + more).
  Proof.
    intros ts w more R W M. unfold draw. destruct (tied (kept ts) w) eqn:T; [reflexivity|].
    unfold tied in T. apply orb_false_iff in T. destruct T as [T1 T2]. apply Nat.eqb_neq in T1.
    set (s := surplus ts) in *. set (k := walk (kept ts) w) in *.
    assert (K : (k < length (kept ts))%nat) by (pose proof (walk_short (kept ts) w); fold k in H; lia).
    assert (L : length (kept ts) = (length (short ts) - s)%nat) by (unfold kept; apply skipn_length).
    assert (N : (length (short ts) <= length ts)%nat).
    { unfold short. pose proof (until_last_short (map cut ts)) as S. rewrite map_length in S. exact S. }
    assert (E : forall i, (i < length (kept ts))%nat -> threshold (kept ts) i = cut (threshold ts (s + i))).
    { intros i I. unfold kept. fold s. rewrite nth_skipped, short_is by lia. reflexivity. }
    assert (Up : forall t, w < cut t -> w * unit + more < t).
    { intros t H. unfold cut in H. assert (w + 1 <= t / unit) by lia.
      pose proof (Z.mul_div_le t unit unit_positive). nia. }
    assert (Down : forall t, cut t < w -> t <= w * unit + more).
    { intros t H. unfold cut in H. assert (t / unit + 1 <= w) by lia.
      pose proof (Z.mul_succ_div_gt t unit unit_positive). nia. }
    assert (A : w * unit + more < threshold ts (s + k)).
    { apply Up. rewrite <- E by exact K. apply walk_stops. exact K. }
    assert (B : forall i, (i < s + k)%nat -> threshold ts i <= w * unit + more).
    { intros i I. destruct k as [|j] eqn:Q.
      - exfalso. assert (Zs : (s < zeros (short ts))%nat) by (unfold s, surplus in *; lia).
        pose proof (zeros_are (short ts) s Zs) as Z0. pose proof (E O ltac:(lia)) as E0.
        rewrite Nat.add_0_r, <- short_is, Z0 in E0 by lia.
        pose proof (walk_stops (kept ts) w) as St. rewrite <- Q in K. specialize (St K).
        fold k in St. rewrite Q, E0 in St. lia.
      - destruct (Nat.le_gt_cases i (s + j)) as [G|G]; [|lia].
        pose proof (R i (s + j)%nat ltac:(lia)) as Ri.
        enough (threshold ts (s + j) <= w * unit + more) by lia.
        apply Down. rewrite <- E by lia. apply Z.eqb_neq in T2.
        pose proof (walk_passed (kept ts) w j) as P. fold k in P. rewrite Q in P. specialize (P ltac:(lia)). lia. }
    unfold entry_of. rewrite (walk_is ts _ (s + k)); [lia|lia|exact B|exact A].
  Qed.
End Kept.

(* Of all 64 + 128 bits, as many draw entry k as lie between the thresholds. *)
Theorem bits_of_an_entry : forall unit words ts k n, 0 < unit -> 0 < words -> Z.of_nat n = words * unit ->
  rising ts -> (k < length ts)%nat -> (forall i, (i < length ts)%nat -> 0 <= threshold ts i <= words * unit) ->
  counted (fun x => Nat.eqb (draw unit words ts (x / unit) (x mod unit)) k) n
  = end_of (words * unit) ts k - start_of ts k.
Proof.
  intros unit words ts k n U W N R K B. rewrite <- N in *. rewrite <- words_of_an_entry by assumption.
  apply counted_ext. intros x X. rewrite draw_is_the_walk; try assumption.
  - rewrite (Z.mul_comm (x / unit)), <- Z.div_mod by lia. reflexivity.
  - split; [apply Z.div_pos; lia|apply Z.div_lt_upper_bound; [exact U|]; lia].
  - apply Z.mod_pos_bound. exact U.
Qed.

(* ------------------------------------------------------------------- how far a table is from a law *)
Open Scope R_scope.

(* A law on 0, 1, ... by its cumulative chances; the mean of f over its first n values. *)
Definition before (C : nat -> R) (k : nat) : R := match k with O => 0 | S j => C j end.
Fixpoint mean (C : nat -> R) (f : nat -> R) (n : nat) : R :=
  match n with O => 0 | S k => mean C f k + f k * (C k - before C k) end.
(* The whole law: what is beyond n values counts as one more. *)
Definition law_mean (C : nat -> R) (f : nat -> R) (n : nat) : R := mean C f n + f n * (1 - before C n).
Definition within_one (f : nat -> R) : Prop := forall k, 0 <= f k <= 1.

Lemma mean_minus : forall P Q f n, mean (fun k => P k - Q k) f n = mean P f n - mean Q f n.
Proof.
  intros P Q f n. induction n as [|n IH]; [simpl; ring|]. simpl. rewrite IH. destruct n; simpl; ring.
Qed.

(* Summation by parts: if every cumulative chance of P is within u of that of Q, no event (and no f
   between 0 and 1) is more than n u apart. *)
Theorem total_variation : forall P Q f n u, within_one f -> before P n = 1 ->
  (forall k, (k < n)%nat -> Rabs (P k - Q k) <= u) ->
  Rabs (mean P f n - law_mean Q f n) <= INR n * u.
Proof.
  intros P Q f n u F T D. set (G := fun k => P k - Q k).
  assert (A : forall n, (forall k, (k < n)%nat -> Rabs (G k) <= u) ->
                        Rabs (mean G f n - f n * before G n) <= INR n * u).
  { clear n T D. induction n as [|n IH]; intro D; [simpl; rewrite Rmult_0_r, Rminus_0_r, Rabs_R0; lra|].
    replace (mean G f (S n) - f (S n) * before G (S n))
      with ((mean G f n - f n * before G n) + G n * (f n - f (S n))) by (simpl; ring).
    eapply Rle_trans; [apply Rabs_triang|]. rewrite S_INR, Rmult_plus_distr_r, Rmult_1_l.
    apply Rplus_le_compat; [apply IH; intros; apply D; lia|]. rewrite Rabs_mult.
    pose proof (F n). pose proof (F (S n)). assert (Rabs (f n - f (S n)) <= 1) by (apply Rabs_le; lra).
    specialize (D n ltac:(lia)). pose proof (Rabs_pos (G n)). pose proof (Rabs_pos (f n - f (S n))). nra. }
  specialize (A n D). unfold G in A. rewrite mean_minus in A. unfold law_mean.
  replace (before (fun k => P k - Q k) n) with (1 - before Q n) in A
    by (rewrite <- T; destruct n; simpl; ring).
  replace (mean P f n - (mean Q f n + f n * (1 - before Q n)))
    with (mean P f n - mean Q f n - f n * (1 - before Q n)) by ring. exact A.
Qed.

Lemma bounded : forall x u, Rabs x <= u -> - u <= x <= u.
Proof. intros x u H. unfold Rabs in H. destruct (Rcase_abs x); lra. Qed.

(* The table of thresholds: chances of whole words. *)
Definition table_chance (N : Z) (ts : list Z) (k : nat) : R := IZR (end_of N ts k) / IZR N.

Theorem slack_of_a_table : forall N ts Q f, (0 < N)%Z -> within_one f -> ts <> [] ->
  (forall k, (k < length ts)%nat -> Rabs (IZR (end_of N ts k) - IZR N * Q k) <= 2) ->
  Rabs (mean (table_chance N ts) f (length ts) - law_mean Q f (length ts)) <= 2 * INR (length ts) / IZR N.
Proof.
  intros N ts Q f P F some D. assert (IZR N > 0) by (apply (IZR_lt 0); exact P).
  replace (2 * INR (length ts) / IZR N) with (INR (length ts) * (2 / IZR N)) by (field; lra).
  apply total_variation; [exact F| |].
  - destruct ts as [|t ts]; [congruence|]. simpl. unfold table_chance, end_of. simpl length.
    rewrite Nat.eqb_refl. field. lra.
  - intros k K. specialize (D k K). unfold table_chance.
    replace (IZR (end_of N ts k) / IZR N - Q k) with ((IZR (end_of N ts k) - IZR N * Q k) / IZR N) by (field; lra).
    unfold Rdiv. rewrite Rabs_mult, (Rabs_pos_eq (/ IZR N)) by (left; apply Rinv_0_lt_compat; lra).
    apply Rmult_le_compat_r; [left; apply Rinv_0_lt_compat; lra|exact D].
Qed.

(* ------------------------------------------------------- a whole run, and what it adds to delta *)
(* A run draws `n` numbers; the law of each may depend on all earlier ones. `event` is the chance that
   what was drawn, and all else, is in an event. *)
Fixpoint run (step : list nat -> (nat -> R) -> R) (event : list nat -> R) (n : nat) (drawn : list nat) : R :=
  match n with O => event drawn | S m => step drawn (fun k => run step event m (k :: drawn)) end.

Section Runs.
  Variables (table law : list nat -> nat -> R) (entries : list nat -> nat) (slack : R).
  Hypothesis table_rises : forall h k, before (table h) k <= table h k.
  Hypothesis law_rises : forall h k, before (law h) k <= law h k.
  Hypothesis table_ends : forall h, before (table h) (entries h) = 1.
  Hypothesis law_ends : forall h, before (law h) (entries h) <= 1.
  Hypothesis near : forall h f, within_one f ->
    Rabs (mean (table h) f (entries h) - law_mean (law h) f (entries h)) <= slack.
  Notation drawing := (fun h f => mean (table h) f (entries h)).
  Notation as_law := (fun h f => law_mean (law h) f (entries h)).

  Lemma mean_le : forall C f g c n, (forall k, before C k <= C k) -> (forall k, f k <= g k + c) ->
    mean C f n <= mean C g n + c * before C n.
  Proof.
    intros C f g c n R H. induction n as [|n IH]; [simpl; lra|]. simpl.
    specialize (R n). specialize (H n). nra.
  Qed.
  Lemma mean_between : forall C f n, (forall k, before C k <= C k) -> within_one f ->
    0 <= mean C f n <= before C n.
  Proof.
    intros C f n R F. induction n as [|n IH]; [simpl; lra|]. simpl. specialize (R n). specialize (F n). nra.
  Qed.
  Lemma law_within : forall h f, within_one f -> 0 <= as_law h f <= 1.
  Proof.
    intros h f F. unfold law_mean. pose proof (mean_between (law h) f (entries h) (law_rises h) F).
    specialize (F (entries h)). pose proof (law_ends h). nra.
  Qed.
  Lemma run_within : forall event n h, (forall d, 0 <= event d <= 1) -> 0 <= run as_law event n h <= 1.
  Proof. intros event n. induction n as [|n IH]; intros h E; simpl; [apply E|]. apply law_within. intro k. apply IH, E. Qed.

  (* Slacks add over draws. *)
  Theorem slacks_add : forall event n h, (forall d, 0 <= event d <= 1) ->
    Rabs (run drawing event n h - run as_law event n h) <= INR n * slack.
  Proof.
    intros event n. induction n as [|n IH]; intros h E; [simpl; rewrite Rminus_diag_eq, Rabs_R0 by reflexivity; lra|].
    cbn [run]. set (f := fun k => run drawing event n (k :: h)). set (g := fun k => run as_law event n (k :: h)).
    assert (G : within_one g) by (intro k; apply run_within, E).
    assert (FG : forall k, Rabs (f k - g k) <= INR n * slack) by (intro k; apply IH, E).
    pose proof (near h g G) as N. apply bounded in N.
    assert (A : mean (table h) f (entries h) <= mean (table h) g (entries h) + INR n * slack).
    { rewrite <- (Rmult_1_r (INR n * slack)), <- (table_ends h).
      apply mean_le; [apply table_rises|]. intro k. specialize (FG k). apply bounded in FG. lra. }
    assert (B : mean (table h) g (entries h) <= mean (table h) f (entries h) + INR n * slack).
    { rewrite <- (Rmult_1_r (INR n * slack)), <- (table_ends h).
      apply mean_le; [apply table_rises|]. intro k. specialize (FG k). apply bounded in FG. lra. }
    rewrite S_INR. apply Rabs_le. lra.
  Qed.
End Runs.

(* What is (epsilon, delta) for the laws is (epsilon, delta + (1 + e^epsilon) slack) for the tables. *)
Theorem slack_adds_to_delta : forall epsilon delta slack p q p' q',
  p <= exp epsilon * q + delta -> Rabs (p' - p) <= slack -> Rabs (q' - q) <= slack ->
  p' <= exp epsilon * q' + (delta + (1 + exp epsilon) * slack).
Proof.
  intros epsilon delta slack p q p' q' H P Q. apply bounded in P. apply bounded in Q.
  pose proof (exp_pos epsilon). nra.
Qed.

(* ------------------------------------------------------- sums, signs and digits of table draws *)
(* Drawing again until one of `kept` comes divides the slack by the larger chance to be kept. *)
Theorem slack_of_rejection : forall pb pa qb qa d, 0 < qa <= pa -> 0 <= qb <= qa -> pb - qb <= d ->
  pb / pa - qb / qa <= d / pa.
Proof.
  intros pb pa qb qa d [Q A] B D. apply (Rmult_le_reg_r pa); [lra|].
  replace ((pb / pa - qb / qa) * pa) with (pb - qb * (pa / qa)) by (field; lra).
  replace (d / pa * pa) with d by (field; lra).
  assert (1 <= pa / qa) by (apply (Rmult_le_reg_r qa); [lra|]; unfold Rdiv; rewrite Rmult_assoc, Rinv_l; lra).
  nra.
Qed.

(* A geometric number is q m + f: a digit f below m, and a geometric number q at m times the rate. *)
Theorem digits_make_a_number : forall rate m q f, 0 < rate -> (0 < m)%nat ->
  (1 - exp (- rate)) * exp (- rate * INR (q * m + f)) =
  ((1 - exp (- (rate * INR m))) * exp (- (rate * INR m) * INR q)) *
  ((1 - exp (- rate)) / (1 - exp (- (rate * INR m))) * exp (- rate * INR f)).
Proof.
  intros rate m q f P M. pose proof (lt_0_INR m M).
  assert (exp (- (rate * INR m)) < 1) by (rewrite <- exp_0; apply exp_increasing; nra).
  rewrite plus_INR, mult_INR, Rmult_plus_distr_l, exp_plus.
  replace (- rate * (INR q * INR m)) with (- (rate * INR m) * INR q) by ring. field. lra.
Qed.

(* A geometric size and a sign, without minus zero: what is kept follows discrete Laplace. *)
Theorem signed_size_is_laplace : forall rate z, 0 < rate ->
  let size k := (1 - exp (- rate)) * exp (- rate * INR k) in
  let proposed := if Z.eq_dec z 0 then size O / 2 else size (Z.abs_nat z) / 2 in
  proposed / (1 - size O / 2) = laplace rate z.
Proof.
  intros rate z P size proposed. pose proof (exp_pos (- rate)).
  assert (exp (- rate) < 1) by (rewrite <- exp_0; apply exp_increasing; lra).
  assert (E : proposed = (1 - exp (- rate)) * exp (- rate * IZR (Z.abs z)) / 2).
  { unfold proposed, size. destruct (Z.eq_dec z 0) as [->|N]; [reflexivity|].
    rewrite INR_IZR_INZ, Zabs2Nat.id_abs. reflexivity. }
  rewrite E. unfold laplace, size. simpl (INR 0). rewrite Rmult_0_r, exp_0. field. lra.
Qed.

(* ------------------------------------------------------------- chances in integers, rounded down *)
(* `Polya` and `Digit`: P(k + 1) = P(k) a b_k with b_k = num / den at most 1, in units of 1 / U, each
   product rounded down. a is known within 2 units, P(0) within e; then P(k) is within e + 4 k. *)
Section Rounding.
  Variable U : Z.
  Hypothesis U_positive : (0 < U)%Z.
  Variables (rounded_a first : Z) (num den : nat -> Z) (a p0 e : R).
  Hypothesis a_between : 0 <= a <= 1.
  Hypothesis rounded_between : (0 <= rounded_a <= U)%Z.
  Hypothesis a_near : Rabs (IZR rounded_a - IZR U * a) <= 2.
  Hypothesis ratios : forall k, (0 <= num k <= den k)%Z /\ (0 < den k)%Z.
  Hypothesis p0_between : 0 <= p0 <= 1.
  Hypothesis first_near : Rabs (IZR first - IZR U * p0) <= e.

  Definition next (k : nat) (p : Z) : Z := (p * rounded_a / U * num k / den k)%Z.
  Fixpoint rounded (k : nat) : Z := match k with O => first | S j => next j (rounded j) end.
  Fixpoint chance (k : nat) : R :=
    match k with O => p0 | S j => chance j * a * (IZR (num j) / IZR (den j)) end.

  Lemma floor_near : forall x y, (0 < y)%Z -> IZR x / IZR y - 1 < IZR (x / y) <= IZR x / IZR y.
  Proof.
    intros x y Y. assert (0 < IZR y) by (apply IZR_lt; exact Y).
    pose proof (Z.mul_div_le x y Y) as A. pose proof (Z.mul_succ_div_gt x y Y) as B.
    apply IZR_le in A. apply IZR_lt in B. rewrite mult_IZR in A, B. rewrite succ_IZR in B.
    split; apply (Rmult_lt_reg_r (IZR y)) || apply (Rmult_le_reg_r (IZR y)); try lra;
      unfold Rdiv; rewrite ?Rmult_minus_distr_r, Rmult_assoc, Rinv_l by lra; lra.
  Qed.
  Lemma ratio_between : forall k, 0 <= IZR (num k) / IZR (den k) <= 1.
  Proof.
    intro k. destruct (ratios k) as [[A B] C]. apply IZR_le in A, B. apply IZR_lt in C.
    split; [apply Rmult_le_pos; [lra|left; apply Rinv_0_lt_compat; lra]|].
    apply (Rmult_le_reg_r (IZR (den k))); [lra|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra.
  Qed.
  Lemma chance_between : forall k, 0 <= chance k <= 1.
  Proof.
    induction k as [|k IH]; [exact p0_between|]. cbn [chance]. pose proof (ratio_between k).
    assert (0 <= chance k * a <= 1) by nra. nra.
  Qed.

  Theorem rounding_of_a_chance : forall k, Rabs (IZR (rounded k) - IZR U * chance k) <= e + 4 * INR k.
  Proof.
    assert (P : 0 < IZR U) by (apply IZR_lt; exact U_positive).
    induction k as [|k IH]; [simpl; rewrite Rmult_0_r, Rplus_0_r; exact first_near|].
    rewrite S_INR. cbn [rounded chance]. unfold next. pose proof (ratio_between k) as B.
    pose proof (chance_between k) as C. destruct (ratios k) as [_ D].
    set (b := IZR (num k) / IZR (den k)) in *. set (t := (rounded k * rounded_a / U)%Z).
    pose proof (floor_near (rounded k * rounded_a) U U_positive) as F1. fold t in F1.
    pose proof (floor_near (t * num k) (den k) D) as F2.
    rewrite mult_IZR in F1, F2. replace (IZR t * IZR (num k) / IZR (den k)) with (IZR t * b) in F2
      by (unfold b, Rdiv; ring).
    destruct rounded_between as [A0 A1]. apply IZR_le in A0, A1. apply bounded in IH. apply bounded in a_near.
    set (r := IZR (rounded k)) in *. set (A := IZR rounded_a / IZR U).
    assert (HA : 0 <= A <= 1).
    { unfold A. split; [apply Rmult_le_pos; [lra|left; apply Rinv_0_lt_compat; lra]|].
      apply (Rmult_le_reg_r (IZR U)); [lra|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra. }
    replace (r * IZR rounded_a / IZR U) with (r * A) in F1 by (unfold A, Rdiv; ring).
    assert (N : - 2 <= IZR U * A - IZR U * a <= 2).
    { unfold A. replace (IZR U * (IZR rounded_a / IZR U)) with (IZR rounded_a) by (field; lra). lra. }
    set (d := r - IZR U * chance k) in *. set (c := chance k) in *. set (w := e + 4 * INR k) in *.
    assert (E1 : r * A - IZR U * c * a = d * A + c * (IZR U * A - IZR U * a)) by (unfold d; ring).
    assert (M1 : - w <= d * A <= w) by nra.
    assert (M2 : - 2 <= c * (IZR U * A - IZR U * a) <= 2) by nra.
    assert (M3 : - (w + 3) <= IZR t - IZR U * c * a <= w + 2) by lra.
    assert (M4 : - (w + 3) <= (IZR t - IZR U * c * a) * b <= w + 3).
    { assert (0 <= w) by lra. nra. }
    replace (e + 4 * (INR k + 1)) with (w + 4) by (unfold w; ring).
    replace (IZR U * (c * a * b)) with (IZR U * c * a * b) by ring.
    apply Rabs_le. nra.
  Qed.

  (* So the 192-bit thresholds are within 2: `low` is 2^128, the bits that are cut off. *)
  Fixpoint rounded_sum (k : nat) : Z := match k with O => rounded O | S j => (rounded_sum j + rounded k)%Z end.
  Fixpoint chance_sum (k : nat) : R := match k with O => chance O | S j => chance_sum j + chance k end.

  Theorem thresholds_are_near : forall N low k, (0 < N)%Z -> (0 < low)%Z -> U = (N * low)%Z ->
    INR (S k) * (e + 4 * INR k) <= IZR low ->
    Rabs (IZR (rounded_sum k / low) - IZR N * chance_sum k) <= 2.
  Proof.
    intros N low k HN HL HU H. assert (0 < IZR low) by (apply IZR_lt; exact HL).
    assert (0 < IZR N) by (apply IZR_lt; exact HN).
    assert (S : forall j, (j <= k)%nat ->
      Rabs (IZR (rounded_sum j) - IZR U * chance_sum j) <= INR (S j) * (e + 4 * INR k)).
    { induction j as [|j IH]; intro J.
      - simpl (INR 1). rewrite Rmult_1_l. cbn [rounded_sum chance_sum].
        eapply Rle_trans; [apply rounding_of_a_chance|]. pose proof (le_INR 0 k J). simpl in *. lra.
      - cbn [rounded_sum chance_sum]. rewrite plus_IZR.
        replace (IZR (rounded_sum j) + IZR (rounded (S j)) - IZR U * (chance_sum j + chance (S j)))
          with ((IZR (rounded_sum j) - IZR U * chance_sum j) + (IZR (rounded (S j)) - IZR U * chance (S j))) by ring.
        eapply Rle_trans; [apply Rabs_triang|]. specialize (IH ltac:(lia)).
        pose proof (rounding_of_a_chance (S j)) as R1. pose proof (le_INR (S j) k J).
        rewrite (S_INR (S j)). rewrite Rmult_plus_distr_r, Rmult_1_l. lra. }
    specialize (S k (le_n k)). apply bounded in S. pose proof (floor_near (rounded_sum k) low HL) as F.
    replace (IZR U) with (IZR N * IZR low) in S by (rewrite HU, mult_IZR; reflexivity).
    set (q := IZR (rounded_sum k) / IZR low) in *.
    assert (Q : IZR (rounded_sum k) = q * IZR low) by (unfold q; field; lra).
    rewrite Q in S. assert (- 1 <= q - IZR N * chance_sum k <= 1) by nra.
    apply Rabs_le. lra.
  Qed.
End Rounding.
