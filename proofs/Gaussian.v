(* Discrete Gaussian noise on one integer, at integer Renyi orders: what `Ledger.moment_filter` asks
   of a step. (Real orders need Poisson summation; mu-GDP needs the trade-off curve: on paper,
   docs/proofs/discrete_gaussian_gdp.md.) Then the lemma by which a selection among Gaussian sums is
   priced (section 4 of that page). *)
From Coq Require Import Reals ZArith List Lia Lra QArith FinFun.
Import ListNotations.
Open Scope R_scope.

Section Gaussian.
  Variable sigma2 : R.
  Hypothesis sigma2_pos : 0 < sigma2.
  Definition gaussian_weight (k : Z) : R := exp (- (IZR k * IZR k) / (2 * sigma2)).

  Fixpoint gaussian_weights (ks : list Z) : R := match ks with [] => 0 | k :: r => gaussian_weight k + gaussian_weights r end.
  (* The normaliser: at least every finite sum. *)
  Variable total : R.
  Hypothesis total_pos : 0 < total.
  Hypothesis total_bounds : forall ks, NoDup ks -> gaussian_weights ks <= total.

  Definition gaussian (x y : Z) : R := gaussian_weight (y - x) / total.     (* x is the exact count, y what is seen *)

  (* order n + 1: P^(n+1) Q^(-n) *)
  Definition moment_of (n : nat) (x x' y : Z) : R :=
    gaussian x y * (gaussian x y / gaussian x' y) ^ n.

  Lemma gaussian_weight_pos : forall k, 0 < gaussian_weight k.
  Proof. intro k. apply exp_pos. Qed.

  Lemma ratio : forall x x' y,
    gaussian x y / gaussian x' y = exp (((IZR (y - x') * IZR (y - x')) - (IZR (y - x) * IZR (y - x))) / (2 * sigma2)).
  Proof.
    intros x x' y. unfold gaussian.
    replace (gaussian_weight (y - x) / total / (gaussian_weight (y - x') / total)) with (gaussian_weight (y - x) * / gaussian_weight (y - x')).
    2:{ pose proof (gaussian_weight_pos (y - x')). field. split; lra. }
    unfold gaussian_weight. rewrite <- exp_Ropp, <- exp_plus. f_equal. field. lra.
  Qed.

  Lemma exp_pow : forall a n, exp a ^ n = exp (INR n * a).
  Proof.
    intros a n. induction n as [|n IH]; [simpl; rewrite Rmult_0_l, exp_0; reflexivity|].
    rewrite S_INR. simpl pow. rewrite IH, <- exp_plus. f_equal. ring.
  Qed.

  (* The tilted weight is the Gaussian around the integer x + n (x - x'), times exp(a (a-1) d^2 / 2 sigma2). *)
  Lemma tilted : forall n x x' y,
    moment_of n x x' y =
    exp (INR (S n) * INR n * (IZR (x - x') * IZR (x - x')) / (2 * sigma2)) *
    (gaussian_weight (y - (x + Z.of_nat n * (x - x'))) / total).
  Proof.
    intros n x x' y. unfold moment_of. rewrite ratio, exp_pow. unfold gaussian, Rdiv.
    rewrite <- !Rmult_assoc. rewrite (Rmult_comm (gaussian_weight (y - x) * / total)), <- Rmult_assoc. f_equal.
    unfold gaussian_weight. rewrite <- !exp_plus. f_equal.
    rewrite S_INR, !minus_IZR, plus_IZR, mult_IZR, minus_IZR, <- INR_IZR_INZ. field. lra.
  Qed.

  Fixpoint sum_moment (n : nat) (x x' : Z) (ys : list Z) : R :=
    match ys with [] => 0 | y :: r => moment_of n x x' y + sum_moment n x x' r end.

  (* rho = d^2 / (2 sigma2): the moment of order a = n + 1 is at most exp(a (a - 1) rho). *)
  Theorem gaussian_moment : forall n x x' ys, NoDup ys ->
    sum_moment n x x' ys <= exp (INR (S n) * INR n * (IZR (x - x') * IZR (x - x')) / (2 * sigma2)).
  Proof.
    intros n x x' ys N. set (e := exp _). set (t := (x + Z.of_nat n * (x - x'))%Z).
    assert (E : sum_moment n x x' ys = e * (gaussian_weights (map (fun y => (y - t)%Z) ys) / total)).
    { clear N. induction ys as [|y ys IH]; simpl; [unfold Rdiv; ring|]. rewrite IH, tilted. fold e t.
      unfold Rdiv. ring. }
    rewrite E. assert (B : gaussian_weights (map (fun y => (y - t)%Z) ys) <= total).
    { apply total_bounds. apply FinFun.Injective_map_NoDup; [|exact N]. intros a b H. lia. }
    assert (P : 0 < e) by apply exp_pos. rewrite <- (Rmult_1_r e) at 2.
    apply Rmult_le_compat_l; [lra|]. apply (Rmult_le_reg_r total); [exact total_pos|].
    unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra.
  Qed.
End Gaussian.

(* Shares of a budget: if they add to at most 1, what they buy adds to at most the budget. *)
Open Scope Q_scope.
Fixpoint sumQ (xs : list Q) : Q := match xs with [] => 0 | x :: r => x + sumQ r end.
Theorem shares_within : forall budget shares, 0 <= budget -> sumQ shares <= 1 ->
  sumQ (map (fun s => budget * s) shares) <= budget.
Proof.
  intros budget shares B S.
  assert (E : sumQ (map (fun s => budget * s) shares) == budget * sumQ shares).
  { clear S. induction shares as [|s shares IH]; simpl; [ring|]. rewrite IH. ring. }
  rewrite E. rewrite <- (Qmult_1_r budget) at 2.
  rewrite !(Qmult_comm budget). apply Qmult_le_compat_r; assumption.
Qed.

(* A selection whose likelihood ratio is one of two, exp high and exp (high - apart), and then Gaussian
   noise of mu^2 = s: together they keep what Gaussian noise of mu^2 = c + s keeps, at every epsilon,
   if apart^2 / 4 <= c s / (c + s). Assumed: that a normal density has the integral 1. The logarithm of
   the ratio of both densities is convex (LogRatio), so they cross twice at most; a line through both
   crossings cuts off what is lost beyond any epsilon. *)
From Coq Require Import Psatz Classical_Prop.
From Coquelicot Require Import Coquelicot.

Module AmongSums.
  Definition line_integral (f : R -> R) (l : R) : Prop :=
    is_RInt_gen f (Rbar_locally m_infty) (Rbar_locally p_infty) l.

  Lemma integral_nonneg : forall f l, (forall x, 0 <= f x) -> line_integral f l -> 0 <= l.
  Proof.
    intros f l pos H. destruct (Rle_lt_dec 0 l) as [y|neg]; [exact y|exfalso].
    assert (E : 0 < - l) by lra.
    specialize (H (ball l (mkposreal _ E)) (locally_ball l (mkposreal _ E))).
    destruct H as [P Q HP HQ H]. destruct HP as [a HP]. destruct HQ as [b HQ].
    destruct (H (Rmin a 0 - 1) (Rmax b 0 + 1)) as [y [I B]].
    - apply HP. pose proof (Rmin_l a 0). lra.
    - apply HQ. pose proof (Rmax_l b 0). lra.
    - simpl in I. assert (0 <= y).
      { apply (is_RInt_ge_0 f (Rmin a 0 - 1) (Rmax b 0 + 1)); [|exact I|intros; apply pos].
        pose proof (Rmin_r a 0). pose proof (Rmax_r b 0). lra. }
      apply Rabs_def2 in B. unfold minus, plus, opp in B. simpl in B. lra.
  Qed.

  Lemma integral_plus : forall f g a b, line_integral f a -> line_integral g b ->
    line_integral (fun x => f x + g x) (a + b).
  Proof. intros f g a b F G. exact (is_RInt_gen_plus f g a b F G). Qed.

  Lemma integral_scal : forall c f a, line_integral f a -> line_integral (fun x => c * f x) (c * a).
  Proof. intros c f a F. exact (is_RInt_gen_scal f c a F). Qed.

  Lemma integral_ext : forall f g a, (forall x, f x = g x) -> line_integral f a -> line_integral g a.
  Proof.
    intros f g a E F P HP. destruct (F P HP) as [A B HA HB H]. exists A B; [exact HA|exact HB|].
    intros x y Ax By. destruct (H x y Ax By) as [z [I Pz]]. exists z. split; [|exact Pz].
    simpl in I |- *. apply (is_RInt_ext f); [intros t _; apply E|exact I].
  Qed.

  Lemma integral_shift : forall f a h, line_integral f a -> line_integral (fun x => f (x - h)) a.
  Proof.
    intros f a h F P HP. destruct (F P HP) as [A B [u A'] [v B'] H].
    exists (fun x => A (x - h)) (fun x => B (x - h)).
    - exists (u + h). intros x lt. apply A'. lra.
    - exists (v + h). intros x lt. apply B'. lra.
    - intros x y Ax By. destruct (H (x - h) (y - h) Ax By) as [z [I Pz]]. exists z. split; [|exact Pz].
      simpl in I |- *.
      apply (is_RInt_ext (fun t => scal 1 (f (1 * t + - h)))).
      + intros t _. unfold scal. simpl. unfold mult. simpl. rewrite !Rmult_1_l. f_equal.
      + apply (is_RInt_comp_lin f 1 (- h) x y z). replace (1 * x + - h) with (x - h) by ring. replace (1 * y + - h) with (y - h) by ring. exact I.
  Qed.

  Section LogRatio.
    Variables kappa k1 k0 p r u v : R.
    Hypothesis p_pos : 0 <= p.
    Hypothesis r_pos : 0 <= r.
    Hypothesis some_mass : 0 < p + r.
    Hypothesis kappa_pos : 0 < kappa.
    Hypothesis wide_enough : (u - v) * (u - v) / 4 <= 2 * kappa.

    Definition two_exps (x : R) : R := p * exp (u * x) + r * exp (v * x).
    Definition log_ratio (x : R) : R := kappa * (x * x) + k1 * x + k0 - ln (two_exps x).
    Definition slope (x : R) : R := 2 * kappa * x + k1 - (p * u * exp (u * x) + r * v * exp (v * x)) / two_exps x.
    Definition bend (x : R) : R := 2 * kappa - p * r * (u - v) * (u - v) * (exp (u * x) * exp (v * x)) / (two_exps x * two_exps x).

    Lemma two_exps_pos : forall x, 0 < two_exps x.
    Proof. intro x. unfold two_exps. pose proof (exp_pos (u * x)). pose proof (exp_pos (v * x)).
      destruct (Req_dec p 0) as [E|E]; [subst p; nra|nra]. Qed.

    Lemma log_ratio_slope : forall x, is_derive log_ratio x (slope x).
    Proof. intro x. unfold log_ratio, slope. pose proof (two_exps_pos x) as P. unfold two_exps in *.
      auto_derive; [exact P|]. field. lra. Qed.

    Lemma slope_bend : forall x, is_derive slope x (bend x).
    Proof. intro x. unfold slope, bend. pose proof (two_exps_pos x) as P. unfold two_exps in *.
      auto_derive; [lra|]. field. lra. Qed.

    Lemma bend_nonneg : forall x, 0 <= bend x.
    Proof.
      intro x. unfold bend. pose proof (two_exps_pos x) as P.
      set (a := p * exp (u * x)). set (b := r * exp (v * x)).
      assert (A : 0 <= a) by (unfold a; pose proof (exp_pos (u * x)); nra).
      assert (B : 0 <= b) by (unfold b; pose proof (exp_pos (v * x)); nra).
      replace (p * r * (u - v) * (u - v) * (exp (u * x) * exp (v * x))) with ((u - v) * (u - v) * (a * b)) by (unfold a, b; ring).
      assert (S : two_exps x = a + b) by reflexivity. rewrite S in P. rewrite S. clearbody a b.
      apply Rle_trans with (2 * kappa - (u - v) * (u - v) / 4); [lra|].
      apply Rplus_le_compat_l. apply Ropp_le_contravar.
      assert (Q : 0 < (a + b) * (a + b)) by (apply Rmult_lt_0_compat; lra).
      apply (Rmult_le_reg_r ((a + b) * (a + b))); [exact Q|].
      replace ((u - v) * (u - v) * (a * b) / ((a + b) * (a + b)) * ((a + b) * (a + b))) with ((u - v) * (u - v) * (a * b)) by (field; lra).
      pose proof (Rle_0_sqr (u - v)) as U. pose proof (Rle_0_sqr (a - b)) as D. unfold Rsqr in *.
      assert (0 <= (u - v) * (u - v) * ((a - b) * (a - b))) by (apply Rmult_le_pos; assumption). lra.
    Qed.

    Lemma slope_rises : forall x y, x <= y -> slope x <= slope y.
    Proof.
      intros x y le. destruct (MVT_gen slope x y bend) as [z [_ E]].
      - intros t _. apply slope_bend.
      - intros t _. apply continuity_pt_filterlim. apply (ex_derive_continuous slope t). exists (bend t). apply slope_bend.
      - pose proof (bend_nonneg z). nra.
    Qed.

    Lemma log_ratio_continuous : continuity log_ratio.
    Proof. intro x. apply continuity_pt_filterlim. apply (ex_derive_continuous log_ratio x). exists (slope x). apply log_ratio_slope. Qed.

    Lemma above_tangent : forall x y, log_ratio x + slope x * (y - x) <= log_ratio y.
    Proof.
      intros x y. destruct (MVT_gen log_ratio x y slope) as [z [I E]].
      - intros t _. apply log_ratio_slope.
      - intros t _. apply log_ratio_continuous.
      - destruct (Rle_lt_dec x y) as [le|lt].
        + rewrite Rmin_left, Rmax_right in I by lra. pose proof (slope_rises x z). nra.
        + rewrite Rmin_right, Rmax_left in I by lra. pose proof (slope_rises z x). nra.
    Qed.

    Lemma between : forall x y z, x <= y <= z -> log_ratio y <= log_ratio x \/ log_ratio y <= log_ratio z.
    Proof.
      intros x y z I. pose proof (above_tangent y x). pose proof (above_tangent y z).
      destruct (Rle_lt_dec 0 (slope y)); [right; nra|left; nra].
    Qed.

    Lemma far : exists b, 0 < b /\ forall x, b <= Rabs x -> 0 < log_ratio x.
    Proof.
      set (g := Rabs k1 + (Rabs u + Rabs v)). set (e := Rabs (k0 - ln (p + r))).
      assert (G : 0 <= g) by (unfold g; pose proof (Rabs_pos k1); pose proof (Rabs_pos u); pose proof (Rabs_pos v); lra).
      assert (E : 0 <= e) by (apply Rabs_pos).
      exists (1 + (g + e) / kappa).
      assert (Q : 0 <= (g + e) / kappa) by (apply Rdiv_le_0_compat; lra).
      split; [lra|]. intros x far_x.
      set (m := Rabs x) in *.
      assert (grow : forall t, Rabs t <= Rabs u + Rabs v -> exp (t * x) <= exp ((Rabs u + Rabs v) * m)).
      { intros t T. destruct (Rle_lt_or_eq_dec (t * x) ((Rabs u + Rabs v) * m)) as [lt|eq].
        - apply Rle_trans with (Rabs (t * x)); [apply Rle_abs|]. rewrite Rabs_mult. apply Rmult_le_compat_r; [apply Rabs_pos|exact T].
        - left. apply exp_increasing, lt.
        - rewrite eq. right. reflexivity. }
      assert (S : two_exps x <= (p + r) * exp ((Rabs u + Rabs v) * m)).
      { unfold two_exps. pose proof (grow u). pose proof (grow v). pose proof (Rabs_pos u). pose proof (Rabs_pos v).
        assert (exp (u * x) <= exp ((Rabs u + Rabs v) * m)) by (apply grow; lra).
        assert (exp (v * x) <= exp ((Rabs u + Rabs v) * m)) by (apply grow; lra). nra. }
      assert (L : ln (two_exps x) <= ln (p + r) + (Rabs u + Rabs v) * m).
      { rewrite <- (ln_exp ((Rabs u + Rabs v) * m)). rewrite <- ln_mult; [|exact some_mass|apply exp_pos].
        destruct S as [lt|eq]; [left; apply ln_increasing; [apply two_exps_pos|exact lt]|rewrite eq; right; reflexivity]. }
      unfold log_ratio.
      assert (X : x * x = m * m) by (unfold m; rewrite <- Rabs_mult; rewrite Rabs_right; [reflexivity|nra]).
      assert (K : - (Rabs k1 * m) <= k1 * x).
      { unfold m. rewrite <- Rabs_mult. pose proof (Rle_abs (- (k1 * x))). rewrite Rabs_Ropp in H. lra. }
      assert (D : - e <= k0 - ln (p + r)).
      { unfold e. pose proof (Rle_abs (- (k0 - ln (p + r)))). rewrite Rabs_Ropp in H. lra. }
      assert (W : g + e < kappa * m).
      { apply Rlt_le_trans with (kappa * (1 + (g + e) / kappa)).
        - replace (kappa * (1 + (g + e) / kappa)) with (kappa + (g + e)) by (field; lra). lra.
        - apply Rmult_le_compat_l; lra. }
      assert (M : 1 <= m) by lra.
      rewrite X. assert ((g + e) * m < kappa * m * m) by nra. unfold g in *. nra.
    Qed.

    Lemma sign : (forall x, 0 <= log_ratio x) \/
      exists y z, y < z /\ (forall x, y <= x <= z -> log_ratio x <= 0) /\ (forall x, x <= y \/ z <= x -> 0 <= log_ratio x).
    Proof.
      destruct (classic (exists x, log_ratio x < 0)) as [[x neg]|none].
      2: { left. intro x. apply Rnot_lt_le. intro lt. apply none. exists x. exact lt. }
      right. destruct far as [b [B F]].
      assert (Rabs x < b). { apply Rnot_le_lt. intro le. specialize (F x le). lra. }
      apply Rabs_def2 in H.
      assert (0 < log_ratio b) by (apply F; rewrite Rabs_right; lra).
      assert (0 < log_ratio (- b)) by (apply F; rewrite Rabs_left; lra).
      destruct (IVT_cor log_ratio (- b) x log_ratio_continuous) as [y [Iy Ey]]; [lra|nra|].
      destruct (IVT_cor log_ratio x b log_ratio_continuous) as [z [Iz Ez]]; [lra|nra|].
      assert (y <> x) by (intro; subst; lra). assert (z <> x) by (intro; subst; lra).
      exists y, z. split; [lra|split].
      - intros t I. destruct (between y t z I); lra.
      - intros t [le|le].
        + destruct (between t y x) as [|]; [lra|lra|lra].
        + destruct (between x z t) as [|]; [lra|lra|lra].
    Qed.
  End LogRatio.

  Definition normal (v m x : R) : R := exp (- ((x - m) * (x - m)) / (2 * v)) / sqrt (2 * PI * v).
  Definition beyond (a x : R) : R := Rmax 0 (exp x - exp a).

  Lemma beyond_shift : forall a h x, beyond (a - h) (x - h) = exp (- h) * beyond a x.
  Proof.
    intros a h x. unfold beyond. rewrite <- RmaxRmult by (left; apply exp_pos).
    f_equal; [ring|]. unfold Rminus. rewrite !exp_plus. ring.
  Qed.

  Lemma hinge : forall k s t, s < t -> exists i j,
    (forall x, s <= x <= t -> Rmax 0 (x - k) <= i + j * x) /\
    (forall x, x <= s \/ t <= x -> i + j * x <= Rmax 0 (x - k)).
  Proof.
    intros k s t lt. set (fs := Rmax 0 (s - k)). set (ft := Rmax 0 (t - k)).
    set (j := (ft - fs) / (t - s)). exists (fs - j * s), j.
    assert (J : j * (t - s) = ft - fs) by (unfold j; field; lra).
    assert (Fs : fs = 0 /\ s <= k \/ fs = s - k /\ k <= s) by (unfold fs, Rmax; destruct (Rle_dec 0 (s - k)); lra).
    assert (Ft : ft = 0 /\ t <= k \/ ft = t - k /\ k <= t) by (unfold ft, Rmax; destruct (Rle_dec 0 (t - k)); lra).
    clearbody j fs ft.
    assert (J0 : 0 <= j <= 1).
    { assert (0 <= ft - fs <= t - s) by lra. split; nra. }
    split; intros x I.
    - unfold Rmax. destruct (Rle_dec 0 (x - k)); nra.
    - unfold Rmax. destruct (Rle_dec 0 (x - k)); destruct I; nra.
  Qed.

  Section OneSelection.
    Variable gaussian : R -> R -> R.
    Hypothesis gaussian_integral : forall v, 0 < v -> line_integral (normal v 0) 1.
    Hypothesis gaussian_deltas : forall v a, 0 < v ->
      line_integral (fun x => beyond a x * normal v (- v / 2) x) (gaussian v a).

    Lemma normal_shift : forall v m h x, normal v m (x - h) = normal v (m + h) x.
    Proof. intros v m h x. unfold normal. do 3 f_equal. ring. Qed.

    Lemma mass : forall v m, 0 < v -> line_integral (normal v m) 1.
    Proof.
      intros v m V. apply integral_ext with (fun x => normal v 0 (x - m)).
      - intro x. rewrite normal_shift. f_equal. ring.
      - apply (integral_shift (normal v 0) 1 m). apply gaussian_integral, V.
    Qed.

    Lemma tilted : forall v m x, 0 < v -> exp x * normal v (m - v / 2) x = exp m * normal v (m + v / 2) x.
    Proof.
      intros v m x V. unfold normal.
      assert (E : exp x * exp (- ((x - (m - v / 2)) * (x - (m - v / 2))) / (2 * v))
                = exp m * exp (- ((x - (m + v / 2)) * (x - (m + v / 2))) / (2 * v))).
      { rewrite <- !exp_plus. f_equal. field. lra. }
      unfold Rdiv at 1 5. rewrite <- !Rmult_assoc, E. reflexivity.
    Qed.

    Variables c s high apart weight : R.
    Hypothesis c_pos : 0 < c.
    Hypothesis s_pos : 0 < s.
    Hypothesis weight_in : 0 <= weight <= 1.
    Hypothesis mean_one : weight * exp (- high) + (1 - weight) * exp (apart - high) = 1.
    Hypothesis priced : apart * apart / 4 <= c * s / (c + s).

    Let q1 := weight * exp (- high).
    Let q2 := (1 - weight) * exp (apart - high).
    Let m1 := high - s / 2.
    Let m2 := high - apart - s / 2.
    Let v := c + s.
    Definition mixture (x : R) : R := q1 * normal s m1 x + q2 * normal s m2 x.

    Lemma q1_pos : 0 <= q1. Proof. unfold q1. pose proof (exp_pos (- high)). nra. Qed.
    Lemma q2_pos : 0 <= q2. Proof. unfold q2. pose proof (exp_pos (apart - high)). nra. Qed.

    Lemma mixture_mass : line_integral mixture 1.
    Proof.
      unfold mixture. replace 1 with (q1 * 1 + q2 * 1) by (unfold q1, q2; lra).
      apply integral_plus; apply integral_scal, mass; exact s_pos.
    Qed.

    Lemma mixture_mean : line_integral (fun x => exp x * mixture x) 1.
    Proof.
      apply integral_ext with (fun x => q1 * exp high * normal s (high + s / 2) x
                                      + q2 * exp (high - apart) * normal s (high - apart + s / 2) x).
      - intro x. unfold mixture, m1, m2. rewrite Rmult_plus_distr_l.
        transitivity (q1 * (exp x * normal s (high - s / 2) x) + q2 * (exp x * normal s (high - apart - s / 2) x)); [|ring].
        rewrite (tilted s high x s_pos), (tilted s (high - apart) x s_pos). ring.
      - replace 1 with (q1 * exp high * 1 + q2 * exp (high - apart) * 1).
        + apply integral_plus; apply integral_scal, mass; exact s_pos.
        + unfold q1, q2. rewrite !Rmult_1_r, !Rmult_assoc, <- !exp_plus.
          replace (- high + high) with 0 by ring. replace (apart - high + (high - apart)) with 0 by ring.
          rewrite exp_0. ring.
    Qed.

    Lemma mixture_deltas : forall a, line_integral (fun x => beyond a x * mixture x)
      (weight * gaussian s (a - high) + (1 - weight) * gaussian s (a - high + apart)).
    Proof.
      intro a.
      apply integral_ext with (fun x => weight * (beyond (a - high) (x - high) * normal s (- s / 2) (x - high))
        + (1 - weight) * (beyond (a - high + apart) (x - (high - apart)) * normal s (- s / 2) (x - (high - apart)))).
      - intro x. replace (a - high + apart) with (a - (high - apart)) by ring.
        rewrite !beyond_shift, !normal_shift. unfold mixture, q1, q2, m1, m2.
        replace (- (high - apart)) with (apart - high) by ring.
        replace (- s / 2 + high) with (high - s / 2) by field.
        replace (- s / 2 + (high - apart)) with (high - apart - s / 2) by field. ring.
      - apply integral_plus; apply integral_scal.
        + apply (integral_shift (fun x => beyond (a - high) x * normal s (- s / 2) x)). apply gaussian_deltas, s_pos.
        + apply (integral_shift (fun x => beyond (a - high + apart) x * normal s (- s / 2) x)). apply gaussian_deltas, s_pos.
    Qed.

    Let p := q1 * exp (- (m1 * m1) / (2 * s)).
    Let r := q2 * exp (- (m2 * m2) / (2 * s)).
    Let kappa := 1 / (2 * s) - 1 / (2 * v).
    Let k0 := - v / 8 + ln (sqrt (2 * PI * s)) - ln (sqrt (2 * PI * v)).
    Definition ratio (x : R) : R := log_ratio kappa (- (1 / 2)) k0 p r (m1 / s) (m2 / s) x.

    Lemma v_pos : 0 < v. Proof. unfold v. lra. Qed.
    Lemma root_pos : forall t, 0 < t -> 0 < sqrt (2 * PI * t).
    Proof. intros t T. apply sqrt_lt_R0. pose proof PI_RGT_0. nra. Qed.

    Lemma p_pos : 0 <= p. Proof. unfold p. pose proof q1_pos. pose proof (exp_pos (- (m1 * m1) / (2 * s))). nra. Qed.
    Lemma r_pos : 0 <= r. Proof. unfold r. pose proof q2_pos. pose proof (exp_pos (- (m2 * m2) / (2 * s))). nra. Qed.
    Lemma some_mass : 0 < p + r.
    Proof.
      pose proof q1_pos. pose proof q2_pos. assert (q1 + q2 = 1) by (unfold q1, q2; exact mean_one).
      pose proof (exp_pos (- (m1 * m1) / (2 * s))). pose proof (exp_pos (- (m2 * m2) / (2 * s))). unfold p, r.
      destruct (Req_dec q1 0) as [E|E]; [rewrite E; nra|nra].
    Qed.
    Lemma kappa_pos : 0 < kappa.
    Proof.
      unfold kappa. replace (1 / (2 * s) - 1 / (2 * v)) with (c / (2 * s * v)) by (unfold v; field; lra).
      apply Rdiv_lt_0_compat; [exact c_pos|]. pose proof v_pos. nra.
    Qed.
    Lemma wide_enough : (m1 / s - m2 / s) * (m1 / s - m2 / s) / 4 <= 2 * kappa.
    Proof.
      unfold kappa, m1, m2. pose proof v_pos as V. fold v in priced.
      replace (2 * (1 / (2 * s) - 1 / (2 * v))) with (c * s / v / (s * s)) by (unfold v in *; field; lra).
      replace (((high - s / 2) / s - (high - apart - s / 2) / s) * ((high - s / 2) / s - (high - apart - s / 2) / s) / 4)
        with (apart * apart / 4 / (s * s)) by (field; lra).
      apply Rmult_le_compat_r; [|exact priced]. left. apply Rinv_0_lt_compat. nra.
    Qed.

    Lemma mixture_two_exps : forall x, mixture x = exp (- (x * x) / (2 * s)) / sqrt (2 * PI * s) * two_exps p r (m1 / s) (m2 / s) x.
    Proof.
      intro x. unfold mixture, two_exps, p, r, normal.
      assert (E : forall m, exp (- ((x - m) * (x - m)) / (2 * s)) = exp (- (x * x) / (2 * s)) * exp (- (m * m) / (2 * s)) * exp (m / s * x)).
      { intro m. rewrite <- !exp_plus. f_equal. field. lra. }
      rewrite (E m1), (E m2). field. pose proof (root_pos s s_pos). lra.
    Qed.

    Lemma mixture_pos : forall x, 0 < mixture x.
    Proof.
      intro x. rewrite mixture_two_exps. apply Rmult_lt_0_compat.
      - apply Rdiv_lt_0_compat; [apply exp_pos|apply root_pos, s_pos].
      - apply two_exps_pos; [exact p_pos|exact r_pos|exact some_mass].
    Qed.

    Lemma ratio_is : forall x, normal v (- v / 2) x = mixture x * exp (ratio x).
    Proof.
      intro x. rewrite mixture_two_exps. unfold ratio, log_ratio.
      set (S := two_exps p r (m1 / s) (m2 / s) x).
      assert (P : 0 < S) by (apply two_exps_pos; [exact p_pos|exact r_pos|exact some_mass]).
      pose proof (root_pos s s_pos) as Rs. pose proof (root_pos v v_pos) as Rv. pose proof v_pos as V.
      unfold k0, Rminus. rewrite !exp_plus, !exp_Ropp, !exp_ln by assumption.
      unfold normal. 
      replace (- ((x - - v / 2) * (x - - v / 2)) / (2 * v)) with (- (x * x) / (2 * s) + (kappa * (x * x) + (- (1 / 2) * x + - v / 8)))
        by (unfold kappa; field; lra).
      rewrite !exp_plus. field. lra.
    Qed.

    Theorem one_selection_among_sums : forall a,
      weight * gaussian s (a - high) + (1 - weight) * gaussian s (a - high + apart) <= gaussian v a.
    Proof.
      intro a. pose proof v_pos as V.
      assert (K : exists i j, forall x, 0 <= (beyond a x - i - j * exp x) * (normal v (- v / 2) x - mixture x)).
      { assert (S : forall x, normal v (- v / 2) x - mixture x = mixture x * (exp (ratio x) - 1)) by (intro x; rewrite ratio_is; ring).
        assert (up : forall x, 0 <= ratio x -> 0 <= exp (ratio x) - 1) by (intros x H; pose proof (exp_ineq1_le (ratio x)); lra).
        assert (down : forall x, ratio x <= 0 -> exp (ratio x) - 1 <= 0).
        { intros x H. pose proof (exp_ineq1_le (- ratio x)). rewrite exp_Ropp in H0. pose proof (exp_pos (ratio x)) as E.
          assert (1 <= / exp (ratio x)) by lra.
          assert (exp (ratio x) * 1 <= exp (ratio x) * / exp (ratio x)) by (apply Rmult_le_compat_l; lra).
          rewrite Rinv_r in H2 by lra. lra. }
        destruct (sign kappa (- (1 / 2)) k0 p r (m1 / s) (m2 / s) p_pos r_pos some_mass kappa_pos wide_enough)
          as [above|[y [z [lt [inside outside]]]]]; fold ratio in *.
        - exists 0, 0. intro x. rewrite S. pose proof (mixture_pos x). pose proof (up x (above x)).
          assert (0 <= beyond a x) by apply Rmax_l. apply Rmult_le_pos; [lra|nra].
        - destruct (hinge (exp a) (exp y) (exp z)) as [i [j [le ge]]]; [apply exp_increasing, lt|].
          exists i, j. intro x. rewrite S. pose proof (mixture_pos x) as M. unfold beyond.
          destruct (Rle_lt_dec y x) as [yx|xy]; [destruct (Rle_lt_dec x z) as [xz|zx]|].
          + assert (Rmax 0 (exp x - exp a) <= i + j * exp x).
            { apply le. split; [destruct yx as [q|q]|destruct xz as [q|q]]; try (left; apply exp_increasing, q); rewrite q; right; reflexivity. }
            pose proof (down x (inside x (conj yx xz))). 
            assert (0 <= mixture x * (1 - exp (ratio x))) by (apply Rmult_le_pos; lra). nra.
          + assert (i + j * exp x <= Rmax 0 (exp x - exp a)) by (apply ge; right; left; apply exp_increasing, zx).
            pose proof (up x (outside x (or_intror (Rlt_le _ _ zx)))).
            apply Rmult_le_pos; [lra|apply Rmult_le_pos; lra].
          + assert (i + j * exp x <= Rmax 0 (exp x - exp a)) by (apply ge; left; left; apply exp_increasing, xy).
            pose proof (up x (outside x (or_introl (Rlt_le _ _ xy)))).
            apply Rmult_le_pos; [lra|apply Rmult_le_pos; lra]. }
      destruct K as [i [j K]].
      pose proof (gaussian_deltas v a V) as D.
      pose proof (mass v (- v / 2) V) as M.
      assert (E : line_integral (fun x => exp x * normal v (- v / 2) x) 1).
      { apply integral_ext with (normal v (v / 2)); [|apply mass, V].
        intro x. pose proof (tilted v 0 x V) as T. rewrite exp_0, Rmult_1_l in T.
        replace (0 - v / 2) with (- v / 2) in T by field. rewrite T. f_equal. ring. }
      set (lost := weight * gaussian s (a - high) + (1 - weight) * gaussian s (a - high + apart)).
      assert (0 <= gaussian v a + -1 * lost + (- i * (1 + -1 * 1) + - j * (1 + -1 * 1))); [|lra].
      apply (integral_nonneg (fun x => (beyond a x - i - j * exp x) * (normal v (- v / 2) x - mixture x))); [exact K|].
      apply integral_ext with (fun x => (beyond a x * normal v (- v / 2) x + -1 * (beyond a x * mixture x))
         + (- i * (normal v (- v / 2) x + -1 * mixture x) + - j * (exp x * normal v (- v / 2) x + -1 * (exp x * mixture x)))).
      - intro x. ring.
      - pose proof (integral_plus _ _ _ _ D (integral_scal (-1) _ _ (mixture_deltas a))) as I1.
        pose proof (integral_plus _ _ _ _ M (integral_scal (-1) _ _ mixture_mass)) as I2.
        pose proof (integral_plus _ _ _ _ E (integral_scal (-1) _ _ mixture_mean)) as I3.
        exact (integral_plus _ _ _ _ I1 (integral_plus _ _ _ _ (integral_scal (- i) _ _ I2) (integral_scal (- j) _ _ I3))).
    Qed.
  End OneSelection.
End AmongSums.
