(* delta > 0 through rho (zCDP): discrete Gaussian noise on whole vectors, sums chosen adaptively
   under the region ledger, a person with up to m records; (epsilon, delta) for every event.

   Integer Renyi orders only, which loses next to nothing: a study may take whichever order gives its
   delta. Selections are not part of this file: their price in rho is on paper. *)
From Coq Require Import Reals ZArith List Lia Lra Arith Bool Permutation.
From Hedgerow Require Import Sums Sensitivity Laplace Gaussian Ledger Guarantee.
Import ListNotations.
Open Scope R_scope.

Lemma sumR_nonneg : forall (A : Type) (f : A -> R) xs, (forall x, 0 <= f x) -> 0 <= Ledger.sumR (map f xs).
Proof. intros A f xs H. induction xs as [|x xs IH]; simpl; [lra|]. specialize (H x). lra. Qed.

Lemma sumR_app : forall xs ys, Ledger.sumR (xs ++ ys) = Ledger.sumR xs + Ledger.sumR ys.
Proof. intros xs ys. induction xs as [|x xs IH]; simpl; [lra|]. rewrite IH. lra. Qed.

Lemma sumR_times : forall (A : Type) c (f : A -> R) xs,
  Ledger.sumR (map (fun x => c * f x) xs) = c * Ledger.sumR (map f xs).
Proof. intros A c f xs. induction xs as [|x xs IH]; simpl; [lra|]. rewrite IH. lra. Qed.

Lemma sums_excess : forall (A : Type) (F G W : A -> R) p e q c xs,
  (forall a, p * F a - e * (q * G a) <= c * W a) ->
  p * Ledger.sumR (map F xs) - e * (q * Ledger.sumR (map G xs)) <= c * Ledger.sumR (map W xs).
Proof.
  intros A F G W p e q c xs one. induction xs as [|a xs IH]; simpl; [right; ring|].
  eapply Rle_trans; [|eapply Rle_trans; [apply (Rplus_le_compat _ _ _ _ (one a) IH)|]]; right; ring.
Qed.

Lemma sumR_is : forall (A : Type) (f : A -> R) xs, Ledger.sumR (map f xs) = sum_of f xs.
Proof. intros A f xs. induction xs as [|x xs IH]; simpl; [reflexivity|]. rewrite IH. reflexivity. Qed.

(* ------------------------------------------------------------------------------ whole vectors *)
Section Vectors.
  Variable sigma2 : R.
  Hypothesis sigma2_pos : 0 < sigma2.
  Variable total : R.                       (* the normaliser: at least every finite sum of weights *)
  Hypothesis total_pos : 0 < total.
  Hypothesis total_bounds : forall ks, NoDup ks -> gaussian_weights sigma2 ks <= total.
  Notation gauss := (gaussian sigma2 total).

  (* The probability that x, with independent noise on each entry, is seen as y. *)
  Fixpoint gaussian_release (x y : vector) : R :=
    match x, y with
    | [], [] => 1
    | a :: x', b :: y' => gauss a b * gaussian_release x' y'
    | _, _ => 0
    end.

  Lemma gauss_pos : forall a b, 0 < gauss a b.
  Proof. intros a b. unfold gaussian. apply Rdiv_lt_0_compat; [apply exp_pos|exact total_pos]. Qed.

  Lemma release_pos : forall x y, length x = length y -> 0 < gaussian_release x y.
  Proof.
    induction x as [|a x IH]; intros [|b y] E; try discriminate E; simpl; [lra|].
    apply Rmult_lt_0_compat; [apply gauss_pos|apply IH]. injection E as E. exact E.
  Qed.
  Lemma release_zero : forall x y, length x <> length y -> gaussian_release x y = 0.
  Proof.
    induction x as [|a x IH]; intros [|b y] E; simpl; try reflexivity; [exfalso; apply E; reflexivity|].
    rewrite IH; [ring|]. intro F. apply E. simpl. congruence.
  Qed.
  Lemma gaussian_release_nonneg : forall x y, 0 <= gaussian_release x y.
  Proof.
    intros x y. destruct (Nat.eq_dec (length x) (length y)) as [E|E];
      [left; apply release_pos, E|right; symmetry; apply release_zero, E].
  Qed.

  (* All vectors with entries among ks. *)
  Fixpoint box (ks : list Z) (d : nat) : list vector :=
    match d with O => [[]] | S d' => flat_map (fun k => map (cons k) (box ks d')) ks end.

  Lemma in_box : forall ks y, (forall k, In k y -> In k ks) -> In y (box ks (length y)).
  Proof.
    intros ks y. induction y as [|k y IH]; intro H; simpl; [left; reflexivity|].
    apply in_flat_map. exists k. split; [apply H; left; reflexivity|]. apply in_map, IH.
    intros j J. apply H. right. exact J.
  Qed.

  Lemma one_entry : forall a ks, NoDup ks -> Ledger.sumR (map (gauss a) ks) <= 1.
  Proof.
    intros a ks N.
    assert (E : Ledger.sumR (map (gauss a) ks) = gaussian_weights sigma2 (map (fun k => (k - a)%Z) ks) / total).
    { clear N. induction ks as [|k ks IH]; simpl; [unfold Rdiv; ring|]. rewrite IH. unfold gaussian, Rdiv. ring. }
    rewrite E. apply (Rmult_le_reg_r total); [exact total_pos|].
    unfold Rdiv. rewrite Rmult_assoc, Rinv_l, Rmult_1_l, Rmult_1_r by lra.
    apply total_bounds. apply FinFun.Injective_map_NoDup; [intros u v H; lia|exact N].
  Qed.

  Lemma whole_box : forall ks t, NoDup ks ->
    Ledger.sumR (map (gaussian_release t) (box ks (length t))) <= 1.
  Proof.
    intros ks t N. induction t as [|a t IH]; [simpl; lra|].
    set (rest := box ks (length t)) in *.
    assert (F : forall js, Ledger.sumR (map (gaussian_release (a :: t)) (flat_map (fun k => map (cons k) rest) js)) =
                Ledger.sumR (map (gauss a) js) * Ledger.sumR (map (gaussian_release t) rest)).
    { intro js. induction js as [|j js IHj]; [simpl; ring|].
      change (flat_map (fun k => map (cons k) rest) (j :: js))
        with (map (cons j) rest ++ flat_map (fun k => map (cons k) rest) js).
      unfold vector in *. rewrite map_app, sumR_app, IHj, map_map.
      change (map (fun y => gaussian_release (a :: t) (j :: y)) rest)
        with (map (fun y => gauss a j * gaussian_release t y) rest).
      rewrite sumR_times.
      change (Ledger.sumR (map (gauss a) (j :: js))) with (gauss a j + Ledger.sumR (map (gauss a) js)).
      unfold vector in *. rewrite Rmult_plus_distr_r. reflexivity. }
    change (box ks (length (a :: t))) with (flat_map (fun k => map (cons k) rest) ks).
    rewrite F. pose proof (one_entry a ks N) as O.
    pose proof (sumR_nonneg _ (gauss a) ks (fun k => Rlt_le _ _ (gauss_pos a k))).
    pose proof (sumR_nonneg _ (gaussian_release t) rest (gaussian_release_nonneg t)).
    nra.
  Qed.

  Theorem release_sums_to_at_most_one : forall t ys, NoDup ys ->
    Ledger.sumR (map (gaussian_release t) ys) <= 1.
  Proof.
    intros t ys N. set (ks := nodup Z.eq_dec (concat ys)).
    eapply Rle_trans; [|apply (whole_box ks t), NoDup_nodup]. rewrite !sumR_is.
    apply sum_of_some; [apply gaussian_release_nonneg|exact N|].
    intros y Y. destruct (Nat.eq_dec (length t) (length y)) as [E|E]; [right|left; apply release_zero, E].
    rewrite E. apply in_box. intros k K. apply nodup_In, in_concat. exists y. split; assumption.
  Qed.

  (* order k + 1 *)
  Definition vector_moment (k : nat) (x x' y : vector) : R :=
    gaussian_release x y * (gaussian_release x y / gaussian_release x' y) ^ k.

  Fixpoint tilt (k : nat) (x x' : vector) : vector :=
    match x, x' with
    | a :: x1, b :: x2 => (a + Z.of_nat k * (a - b))%Z :: tilt k x1 x2
    | _, _ => []
    end.

  Lemma vector_tilted : forall k x x' y, length x = length x' ->
    vector_moment k x x' y =
    exp (INR (S k) * INR k * IZR (L2sq (vsub x x')) / (2 * sigma2)) * gaussian_release (tilt k x x') y.
  Proof.
    intros k x. induction x as [|a x IH]; intros [|a' x'] y E; try discriminate E.
    - replace (L2sq (vsub [] [])) with 0%Z by reflexivity. unfold vector_moment.
      replace (INR (S k) * INR k * 0 / (2 * sigma2)) with 0 by (field; lra). rewrite exp_0.
      destruct y as [|b y]; simpl; [|ring]. replace (1 / 1) with 1 by field. rewrite pow1. ring.
    - injection E as E. destruct y as [|b y]; [unfold vector_moment; simpl; ring|].
      specialize (IH x' y E). unfold vector_moment in *. cbn [gaussian_release tilt vsub].
      destruct (Nat.eq_dec (length x) (length y)) as [F|F].
      + pose proof (release_pos x y F). pose proof (release_pos x' y ltac:(congruence)) as Q.
        pose proof (gauss_pos a b). pose proof (gauss_pos a' b).
        replace (gauss a b * gaussian_release x y / (gauss a' b * gaussian_release x' y))
          with ((gauss a b / gauss a' b) * (gaussian_release x y / gaussian_release x' y)) by (field; lra).
        rewrite Rpow_mult_distr.
        replace (gauss a b * gaussian_release x y *
                 ((gauss a b / gauss a' b) ^ k * (gaussian_release x y / gaussian_release x' y) ^ k))
          with (moment_of sigma2 total k a a' b *
                (gaussian_release x y * (gaussian_release x y / gaussian_release x' y) ^ k))
          by (unfold moment_of; ring).
        rewrite IH, (tilted sigma2 sigma2_pos total total_pos).
        replace (L2sq ((a - a')%Z :: vsub x x')) with ((a - a') * (a - a') + L2sq (vsub x x'))%Z by reflexivity.
        rewrite plus_IZR, mult_IZR.
        replace (INR (S k) * INR k * (IZR (a - a') * IZR (a - a') + IZR (L2sq (vsub x x'))) / (2 * sigma2))
          with (INR (S k) * INR k * (IZR (a - a') * IZR (a - a')) / (2 * sigma2) +
                INR (S k) * INR k * IZR (L2sq (vsub x x')) / (2 * sigma2)) by (field; lra).
        rewrite exp_plus. unfold gaussian. ring.
      + rewrite (release_zero x y F).
        assert (T : length (tilt k x x') = length x).
        { clear - E. revert x' E. induction x as [|u x IHx]; intros [|v x'] E; try discriminate E; simpl; [reflexivity|].
          injection E as E. f_equal. apply IHx, E. }
        rewrite (release_zero (tilt k x x') y) by congruence. ring.
  Qed.

  (* rho = |x - x'|^2 / (2 sigma2): the moment of order k + 1 is at most exp((k + 1) k rho). *)
  Theorem gaussian_vector_moment : forall k x x' ys, length x = length x' -> NoDup ys ->
    Ledger.sumR (map (vector_moment k x x') ys) <=
    exp (INR (S k) * INR k * IZR (L2sq (vsub x x')) / (2 * sigma2)).
  Proof.
    intros k x x' ys E N. set (e := exp _).
    replace (Ledger.sumR (map (vector_moment k x x') ys)) with (e * Ledger.sumR (map (gaussian_release (tilt k x x')) ys)).
    - pose proof (release_sums_to_at_most_one (tilt k x x') ys N). assert (0 < e) by apply exp_pos. nra.
    - rewrite <- sumR_times. f_equal. apply map_ext. intro y. rewrite vector_tilted by exact E. reflexivity.
  Qed.
End Vectors.

(* --------------------------------------------------------------- from moments to (epsilon, delta) *)
(* Canonne, Kamath and Steinke 2020, Proposition 12, at the order k + 1. *)
Definition delta_of_moment (k : nat) (epsilon : R) : R :=
  exp (- (INR k * epsilon)) * / INR (S k) * (INR k / INR (S k)) ^ k.

Lemma arithmetic_geometric : forall n t, 0 <= t -> 0 <= INR n * t ^ S n - INR (S n) * t ^ n + 1.
Proof.
  induction n as [|n IH]; intros t T; [simpl; lra|].
  specialize (IH t T).
  assert (G : 0 <= (t - 1) * (t ^ S n - 1)).
  { destruct (Rle_dec 1 t) as [B|B].
    - apply Rmult_le_pos; [lra|]. pose proof (pow_R1_Rle t (S n) B). lra.
    - assert (U : t ^ S n <= 1).
      { rewrite <- (pow1 (S n)). apply pow_incr. lra. }
      nra. }
  rewrite !S_INR in *. simpl pow in *. nra.
Qed.

Theorem excess_by_moment : forall k epsilon p q, (0 < k)%nat -> 0 < p -> 0 < q ->
  p - exp epsilon * q <= delta_of_moment k epsilon * (p * (p / q) ^ k).
Proof.
  intros k epsilon p q K P Q.
  assert (N : 0 < INR k) by (apply lt_0_INR, K). assert (S1 : INR (S k) = INR k + 1) by apply S_INR.
  set (x := exp epsilon * q / p). assert (E : 0 < exp epsilon) by apply exp_pos.
  assert (X : 0 < x) by (apply Rdiv_lt_0_compat; [apply Rmult_lt_0_compat; assumption|exact P]).
  set (u := x * (INR (S k) / INR k)).
  assert (U : 0 < u) by (apply Rmult_lt_0_compat; [exact X|apply Rdiv_lt_0_compat; lra]).
  pose proof (arithmetic_geometric k u (Rlt_le _ _ U)) as A.
  assert (R : p / q = exp epsilon * / x) by (unfold x; field; lra).
  rewrite R, Rpow_mult_distr, pow_inv.
  unfold delta_of_moment. rewrite exp_Ropp, exp_pow in *.
  replace (exp (INR k * epsilon)) with (exp epsilon ^ k) by (rewrite exp_pow; reflexivity).
  assert (EK : 0 < exp epsilon ^ k) by (apply pow_lt, E). assert (XK : 0 < x ^ k) by (apply pow_lt, X).
  assert (UX : x = u * (INR k / INR (S k))) by (unfold u; field; lra).
  assert (UK : x ^ k = u ^ k * (INR k / INR (S k)) ^ k) by (rewrite UX at 1; apply Rpow_mult_distr).
  set (c := (INR k / INR (S k)) ^ k) in *.
  assert (C : 0 < c) by (apply pow_lt, Rdiv_lt_0_compat; lra).
  assert (UP : 0 < u ^ k) by (apply pow_lt, U).
  replace (/ exp epsilon ^ k * / INR (S k) * c * (p * (exp epsilon ^ k * / x ^ k)))
    with (p * (/ INR (S k) * / u ^ k)) by (rewrite UK; field; repeat split; lra).
  replace (p - exp epsilon * q) with (p * (1 - x)) by (unfold x; field; lra).
  apply Rmult_le_compat_l; [lra|]. rewrite UX.
  apply (Rmult_le_reg_r (INR (S k) * u ^ k)); [apply Rmult_lt_0_compat; lra|].
  replace (/ INR (S k) * / u ^ k * (INR (S k) * u ^ k)) with 1 by (field; lra).
  replace ((1 - u * (INR k / INR (S k))) * (INR (S k) * u ^ k)) with (INR (S k) * u ^ k - INR k * u ^ S k)
    by (simpl pow; field; lra).
  lra.
Qed.

(* ------------------------------------------------------------------------------- the guarantee *)
Section Rho.
  Variables record test outcome : Type.
  Variable test_eq : forall a b : test, {a = b} + {a <> b}.
  Variable outcome_eq : forall a b : outcome, {a = b} + {a <> b}.
  Variable outcome_of : record -> test -> outcome.
  Notation sums := (sum_query record test outcome).
  Notation exact := (exact record test outcome outcome_eq outcome_of).
  Notation ledger_query := (query test outcome record vector).
  Notation ledger_total := (ledger_total test outcome test_eq outcome_eq).
  Notation charge_of := (Ledger.charge_of test outcome record vector).
  Notation law := (q_law test outcome record vector).

  Variable unit : R.                    (* rho of one unit of cost *)
  Variables budget m : Z.               (* and records_per_person *)
  Hypothesis unit_pos : 0 < unit.
  Hypothesis budget_nonneg : (0 <= budget)%Z.
  Hypothesis m_pos : (0 < m)%Z.
  (* the normaliser of each variance; at least every finite sum is all that is used of it *)
  Variable total : R -> R.
  Hypothesis total_pos : forall s, 0 < s -> 0 < total s.
  Hypothesis total_bounds : forall s ks, 0 < s -> NoDup ks -> gaussian_weights s ks <= total s.

  (* privacy/accounting/conversions.py, noise_law: DiscreteGaussian(L2^2 / (2 cost)) *)
  Definition variance (q : sums) : R :=
    IZR (l2_squared (of_person (repeated (bound _ _ _ q) (groups _ _ _ q)) m)) / (2 * (unit * IZR (cost _ _ _ q))).
  Definition gaussian_query (q : sums) : ledger_query :=
    Query test outcome record vector (region_of _ _ _ q) (cost _ _ _ q)
      (fun rows => gaussian_release (variance q) (total (variance q)) (exact q rows)).
  Variable learner : list (response vector) -> option sums.
  Definition rho_analyst (h : list (response vector)) : option ledger_query := option_map gaussian_query (learner h).

  (* The probability that a run of at most n steps, with answers among a finite list, ends in an event. *)
  Variable answers : list vector.
  Hypothesis answers_distinct : NoDup answers.
  Variable event : list (response vector) -> bool.
  Fixpoint run_probability (rows : list record) (n : nat) (cs : list (charge test outcome))
      (h : list (response vector)) : R :=
    match n with
    | O => if event h then 1 else 0
    | S n' =>
        match rho_analyst h with
        | None => if event h then 1 else 0
        | Some q =>
            if (ledger_total (charge_of q :: cs) <=? budget)%Z
            then Ledger.sumR (map (fun a => law q rows a *
                   run_probability rows n' (charge_of q :: cs) (h ++ [Answered vector a])) answers)
            else run_probability rows n' cs (h ++ [Refused vector])
        end
    end.

  Section Pair.
    Variables D D' : list record.
    Variable k : nat.
    Hypothesis k_pos : (0 < k)%nat.
    Definition step_weight (q : ledger_query) (a : vector) : R := law q D a * (law q D a / law q D' a) ^ k.
    Notation moment := (moment test outcome test_eq outcome_eq record vector rho_analyst budget answers step_weight).

    (* For a noisy sum an answer is possible under both databases, or under neither. *)
    Hypothesis both_or_none : forall h q a, rho_analyst h = Some q ->
      (0 < law q D a /\ 0 < law q D' a) \/ (law q D a = 0 /\ law q D' a = 0).

    Lemma delta_pos : forall epsilon, 0 < delta_of_moment k epsilon.
    Proof.
      intro epsilon. unfold delta_of_moment. assert (N : 0 < INR k) by (apply lt_0_INR, k_pos).
      assert (S1 : INR (S k) = INR k + 1) by apply S_INR.
      apply Rmult_lt_0_compat; [apply Rmult_lt_0_compat; [apply exp_pos|apply Rinv_0_lt_compat; lra]|].
      apply pow_lt, Rdiv_lt_0_compat; lra.
    Qed.

    Lemma moment_nonneg : forall n cs h, 0 <= moment n cs h.
    Proof.
      induction n as [|n IH]; intros cs h; simpl; [lra|].
      destruct (rho_analyst h) as [q|] eqn:A; [|lra].
      destruct (ledger_total (charge_of q :: cs) <=? budget)%Z; [|apply IH].
      apply sumR_nonneg. intro a. apply Rmult_le_pos; [|apply IH]. unfold step_weight.
      destruct (both_or_none h q a A) as [[P Q]|[P Q]]; [|rewrite P; lra].
      apply Rmult_le_pos; [lra|]. apply pow_le. left. apply Rdiv_lt_0_compat; assumption.
    Qed.

    Lemma run_excess : forall epsilon n cs h p q, 0 < p -> 0 < q ->
      p * run_probability D n cs h - exp epsilon * (q * run_probability D' n cs h) <=
      delta_of_moment k epsilon * (p * (p / q) ^ k) * moment n cs h.
    Proof.
      intros epsilon n. induction n as [|n IH]; intros cs h p q P Q.
      - simpl. pose proof (excess_by_moment k epsilon p q k_pos P Q). pose proof (delta_pos epsilon).
        assert (0 <= p * (p / q) ^ k) by (apply Rmult_le_pos; [lra|apply pow_le; left; apply Rdiv_lt_0_compat; assumption]).
        destruct (event h); [lra|nra].
      - cbn [run_probability Ledger.moment]. destruct (rho_analyst h) as [g|] eqn:A.
        + destruct (ledger_total (charge_of g :: cs) <=? budget)%Z; [|apply IH; assumption].
          assert (one : forall a, p * (law g D a * run_probability D n (charge_of g :: cs) (h ++ [Answered vector a])) -
                  exp epsilon * (q * (law g D' a * run_probability D' n (charge_of g :: cs) (h ++ [Answered vector a]))) <=
                  delta_of_moment k epsilon * (p * (p / q) ^ k) *
                  (step_weight g a * moment n (charge_of g :: cs) (h ++ [Answered vector a]))).
          { intro a. destruct (both_or_none h g a A) as [[X Y]|[X Y]].
            - pose proof (IH (charge_of g :: cs) (h ++ [Answered vector a]) (p * law g D a) (q * law g D' a)
                            (Rmult_lt_0_compat _ _ P X) (Rmult_lt_0_compat _ _ Q Y)) as H.
              replace (p * law g D a / (q * law g D' a)) with (p / q * (law g D a / law g D' a)) in H by (field; lra).
              rewrite Rpow_mult_distr in H. unfold step_weight in *. eapply Rle_trans; [|eapply Rle_trans; [exact H|]]; right; ring.
            - unfold step_weight. rewrite X, Y. right. ring. }
          apply sums_excess. exact one.
        + pose proof (excess_by_moment k epsilon p q k_pos P Q). pose proof (delta_pos epsilon).
          assert (0 <= p * (p / q) ^ k) by (apply Rmult_le_pos; [lra|apply pow_le; left; apply Rdiv_lt_0_compat; assumption]).
          destruct (event h); [lra|nra].
    Qed.
  End Pair.

  (* ------------------------------------------------------ how far a person moves a noisy sum *)
  Notation inside := (inside_region record test outcome outcome_eq outcome_of).
  Notation parts q := (person_part record (groups _ _ _ q) (cells _ _ _ q) (channels _ _ _ q) (cell _ _ _ q)
                         (contribution _ _ _ q) (bound _ _ _ q) (inside q)).

  Lemma L2sq_sym : forall x y, L2sq (vsub x y) = L2sq (vsub y x).
  Proof.
    unfold L2sq. induction x as [|a x IH]; intros [|b y]; try reflexivity.
    cbn [vsub]. rewrite !norm_cons, IH. unfold square. ring.
  Qed.

  Lemma parts_inside : forall q person, parts q (filter (inside q) person) = parts q person.
  Proof.
    intros q person. induction person as [|r rest IH]; [reflexivity|]. cbn [filter].
    destruct (inside q r) eqn:I; cbn [person_part]; rewrite <- IH; [reflexivity|].
    unfold record_part at 1. rewrite I, vadd_comm.
    rewrite <- (person_part_length record (groups _ _ _ q) (cells _ _ _ q) (channels _ _ _ q) (cell _ _ _ q)
                  (contribution _ _ _ q) (bound _ _ _ q) (inside q) (contribution_length _ _ _ q)
                  (filter (inside q) rest)).
    symmetry. apply vadd_zeros.
  Qed.

  Lemma person_moves : forall q person rows, exists j : nat, (j <= length person)%nat /\
    (pays_all test outcome outcome_eq record outcome_of person (charge_of (gaussian_query q)) =
     Z.of_nat j * cost _ _ _ q)%Z /\
    (L2sq (vsub (exact q (person ++ rows)) (exact q rows)) <=
     l2_squared (repeated (bound _ _ _ q) (groups _ _ _ q)) * (Z.of_nat j * Z.of_nat j))%Z.
  Proof.
    intros q person rows. exists (length (filter (inside q) person)). repeat split.
    - clear. induction person as [|r rest IH]; simpl; [lia|]. destruct (inside q r); simpl; lia.
    - unfold pays_all. induction person as [|r rest IH]; [reflexivity|]. cbn [map total_of filter].
      rewrite IH. unfold pays. cbn [fst snd Ledger.charge_of gaussian_query q_region q_cost].
      fold (inside q r). destruct (inside q r); cbn [length]; lia.
    - unfold Guarantee.exact.
      rewrite (answer_of_person record (groups _ _ _ q) (cells _ _ _ q) (channels _ _ _ q) (cell _ _ _ q)
                 (contribution _ _ _ q) (bound _ _ _ q) (inside q) (contribution_length _ _ _ q)).
      rewrite vsub_vadd.
      2:{ rewrite person_part_length, answer_length by apply contribution_length. reflexivity. }
      rewrite <- parts_inside.
      destruct (filter (inside q) person) as [|r rest] eqn:F.
      + simpl. unfold L2sq. rewrite norm_zeros by reflexivity. lia.
      + rewrite <- F. assert (N : filter (inside q) person <> []) by (rewrite F; discriminate).
        destruct (one_person record (groups _ _ _ q) (cells _ _ _ q) (channels _ _ _ q) (cell _ _ _ q)
                    (contribution _ _ _ q) (bound _ _ _ q) (inside q) (cell_lt _ _ _ q)
                    (contribution_length _ _ _ q) (bound_positive _ _ _ q) _ N) as [_ [H _]].
        exact H.
  Qed.

  Lemma l2_pos : forall q : sums, (0 < l2_squared (repeated (bound _ _ _ q) (groups _ _ _ q)))%Z.
  Proof.
    intro q. destruct (bound_positive _ _ _ q) as [_ [b _]]. pose proof (groups_pos _ _ _ q). simpl. nia.
  Qed.

  Lemma variance_pos : forall q, 0 < variance q.
  Proof.
    intro q. unfold variance. apply Rdiv_lt_0_compat.
    - apply IZR_lt. pose proof (l2_pos q). cbn [of_person l2_squared] in *. nia.
    - pose proof (cost_pos _ _ _ q) as C. apply IZR_lt in C. nra.
  Qed.

  Lemma step_moment : forall k q person rows D D', (Z.of_nat (length person) <= m)%Z ->
    (D = exact q (person ++ rows) /\ D' = exact q rows) \/ (D = exact q rows /\ D' = exact q (person ++ rows)) ->
    Ledger.sumR (map (vector_moment (variance q) (total (variance q)) k D D') answers) <=
    exp (INR (S k) * INR k * unit / IZR m *
         IZR (pays_all test outcome outcome_eq record outcome_of person (charge_of (gaussian_query q)))).
  Proof.
    intros k q person rows D D' few which.
    destruct (person_moves q person rows) as [j [J [pays moves]]].
    assert (E : length D = length D') by (destruct which as [[-> ->]|[-> ->]]; rewrite !exact_length; reflexivity).
    assert (L : (L2sq (vsub D D') <= l2_squared (repeated (bound _ _ _ q) (groups _ _ _ q)) * (Z.of_nat j * Z.of_nat j))%Z)
      by (destruct which as [[-> ->]|[-> ->]]; [|rewrite L2sq_sym]; exact moves).
    eapply Rle_trans;
      [apply (gaussian_vector_moment (variance q) (variance_pos q) (total (variance q)) (total_pos _ (variance_pos q))
                (fun ks => total_bounds _ ks (variance_pos q)) k D D' answers E answers_distinct)|].
    rewrite pays, mult_IZR.
    assert (B : IZR (L2sq (vsub D D')) / (2 * variance q) <= unit / IZR m * (IZR (Z.of_nat j) * IZR (cost _ _ _ q))).
    { unfold variance. cbn [of_person l2_squared].
      pose proof (l2_pos q) as S. set (s := l2_squared (repeated (bound _ _ _ q) (groups _ _ _ q))) in *.
      pose proof (cost_pos _ _ _ q) as C. set (c := cost _ _ _ q) in *.
      apply IZR_le in L. rewrite !mult_IZR in *. apply IZR_lt in S, C. pose proof (IZR_lt _ _ m_pos) as M.
      assert (JM : 0 <= IZR (Z.of_nat j) <= IZR m) by (split; apply IZR_le; lia).
      set (x := IZR (L2sq (vsub D D'))) in *. set (r := IZR (Z.of_nat j)) in *. set (mm := IZR m) in *.
      replace (x / (2 * (IZR s * (mm * mm) / (2 * (unit * IZR c))))) with (x * (unit * IZR c / (IZR s * (mm * mm))))
        by (field; repeat split; nra).
      replace (unit / mm * (r * IZR c)) with (IZR s * (mm * r) * (unit * IZR c / (IZR s * (mm * mm))))
        by (field; repeat split; nra).
      apply Rmult_le_compat_r; [left; apply Rdiv_lt_0_compat; [nra|apply Rmult_lt_0_compat; nra]|].
      apply Rle_trans with (IZR s * (r * r)); [lra|]. apply Rmult_le_compat_l; [lra|]. nra. }
    pose proof (pos_INR k) as K0. pose proof (pos_INR (S k)) as K1.
    assert (KK : 0 <= INR (S k) * INR k) by (apply Rmult_le_pos; assumption).
    assert (G : INR (S k) * INR k * IZR (L2sq (vsub D D')) / (2 * variance q) <=
                INR (S k) * INR k * unit / IZR m * (IZR (Z.of_nat j) * IZR (cost _ _ _ q))).
    { replace (INR (S k) * INR k * IZR (L2sq (vsub D D')) / (2 * variance q))
        with (INR (S k) * INR k * (IZR (L2sq (vsub D D')) / (2 * variance q))) by (unfold Rdiv; ring).
      replace (INR (S k) * INR k * unit / IZR m * (IZR (Z.of_nat j) * IZR (cost _ _ _ q)))
        with (INR (S k) * INR k * (unit / IZR m * (IZR (Z.of_nat j) * IZR (cost _ _ _ q)))) by (unfold Rdiv; ring).
      apply Rmult_le_compat_l; assumption. }
    destruct G as [G|G]; [left; apply exp_increasing; exact G|right; f_equal; exact G].
  Qed.

  (* delta at the order k + 1 of a budget in rho *)
  Definition delta_of_rho (k : nat) (epsilon : R) : R :=
    delta_of_moment k epsilon * exp (INR (S k) * INR k * (unit * IZR budget)).

  Lemma one_direction : forall k epsilon n person rows D D', (0 < k)%nat -> (Z.of_nat (length person) <= m)%Z ->
    (Permutation D (person ++ rows) /\ Permutation D' rows) \/ (Permutation D rows /\ Permutation D' (person ++ rows)) ->
    run_probability D n [] [] <= exp epsilon * run_probability D' n [] [] + delta_of_rho k epsilon.
  Proof.
    intros k epsilon n person rows D D' K few which.
    assert (both : forall h q a, rho_analyst h = Some q ->
              (0 < law q D a /\ 0 < law q D' a) \/ (law q D a = 0 /\ law q D' a = 0)).
    { intros h q a A. unfold rho_analyst in A. destruct (learner h) as [g|]; [|discriminate A].
      injection A as <-. cbn [q_law gaussian_query].
      assert (E : length (exact g D) = length (exact g D')) by (rewrite !exact_length; reflexivity).
      destruct (Nat.eq_dec (length (exact g D)) (length a)) as [F|F].
      - left. split; apply release_pos; try (apply total_pos, variance_pos); congruence.
      - right. split; apply release_zero; congruence. }
    assert (M : moment test outcome test_eq outcome_eq record vector rho_analyst budget answers (step_weight D D' k) n [] [] <=
                exp (INR (S k) * INR k * unit / IZR m * IZR (m * budget - paid_all test outcome outcome_eq record outcome_of person []))).
    { apply moment_filter; try assumption.
      - apply Rmult_le_pos; [|lra]. apply Rmult_le_pos; apply pos_INR.
      - intros h q A. pose proof A as A'. unfold rho_analyst in A. destruct (learner h) as [g|]; [|discriminate A].
        injection A as <-. split; [cbn [q_cost gaussian_query]; pose proof (cost_pos _ _ _ g); lia|]. split.
        + intro a. unfold step_weight. destruct (both h _ a A') as [[P Q]|[P Q]]; [|rewrite P; lra].
          apply Rmult_le_pos; [lra|]. apply pow_le. left. apply Rdiv_lt_0_compat; assumption.
        + apply (step_moment k g person rows (exact g D) (exact g D') few).
          destruct which as [[P Q]|[P Q]]; [left|right];
            split; apply exact_permuted; assumption.
      - constructor. }
    replace (paid_all test outcome outcome_eq record outcome_of person []) with 0%Z in M
      by (unfold paid_all, paid; simpl; clear; induction person; simpl; lia).
    pose proof (run_excess D D' k K both epsilon n [] [] 1 1 Rlt_0_1 Rlt_0_1) as X.
    replace (1 / 1) with 1 in X by field. rewrite pow1 in X.
    pose proof (delta_pos k K epsilon) as P. unfold delta_of_rho.
    replace (INR (S k) * INR k * unit / IZR m * IZR (m * budget - 0)) with (INR (S k) * INR k * (unit * IZR budget)) in M.
    2:{ rewrite Z.sub_0_r, mult_IZR. pose proof (IZR_lt _ _ m_pos). field. lra. }
    pose proof (Rmult_le_compat_l _ _ _ (Rlt_le _ _ P) M). lra.
  Qed.

  Theorem guarantee_through_rho : forall k epsilon n smaller bigger, (0 < k)%nat -> neighbours record m smaller bigger ->
    run_probability smaller n [] [] <= exp epsilon * run_probability bigger n [] [] + delta_of_rho k epsilon /\
    run_probability bigger n [] [] <= exp epsilon * run_probability smaller n [] [] + delta_of_rho k epsilon.
  Proof.
    intros k epsilon n smaller bigger K [person [few P]].
    split; apply (one_direction k epsilon n person smaller); try assumption; [right|left]; split;
      try assumption; apply Permutation_refl.
  Qed.
End Rho.

(* What is assumed of the normaliser can be had: a Gaussian weight is at most a geometric one. *)
Theorem normaliser_exists : exists total : R -> R, (forall s, 0 < s -> 0 < total s) /\
  forall s ks, 0 < s -> NoDup ks -> gaussian_weights s ks <= total s.
Proof.
  set (rate := fun s => / (2 * s)). exists (fun s => / laplace (rate s) 0).
  assert (R : forall s, 0 < s -> 0 < rate s) by (intros s S; apply Rinv_0_lt_compat; lra).
  split; [intros s S; apply Rinv_0_lt_compat, laplace_pos, R, S|].
  intros s ks S N. pose proof (laplace_pos (rate s) 0 (R s S)) as P.
  apply (Rmult_le_reg_r (laplace (rate s) 0)); [exact P|]. rewrite Rinv_l by lra.
  eapply Rle_trans; [|apply (laplace_of_distinct (rate s) ks (R s S) N)].
  clear N. induction ks as [|k ks IH]; [simpl; lra|]. cbn [gaussian_weights]. rewrite sum_of_cons.
  assert (one : gaussian_weight s k * laplace (rate s) 0 <= laplace (rate s) k).
  { unfold laplace. replace (- rate s * IZR (Z.abs 0)) with 0 by (simpl (Z.abs 0); ring). rewrite exp_0, Rmult_1_r.
    set (c := (1 - exp (- rate s)) / (1 + exp (- rate s))) in *. rewrite Rmult_comm.
    assert (C : 0 < c).
    { unfold laplace in P. replace (- rate s * IZR (Z.abs 0)) with 0 in P by (simpl (Z.abs 0); ring).
      rewrite exp_0, Rmult_1_r in P. exact P. }
    apply Rmult_le_compat_l; [lra|]. unfold gaussian_weight.
    assert (Q : IZR (Z.abs k) <= IZR k * IZR k) by (rewrite <- mult_IZR; apply IZR_le; nia).
    assert (E : - (IZR k * IZR k) / (2 * s) <= - rate s * IZR (Z.abs k)).
    { unfold rate, Rdiv. pose proof (Rinv_0_lt_compat (2 * s) ltac:(lra)). nra. }
    destruct E as [E|E]; [left; apply exp_increasing; exact E|right; f_equal; exact E]. }
  lra.
Qed.
