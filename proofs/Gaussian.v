(* Discrete Gaussian noise on one integer, at integer Renyi orders: what `Ledger.moment_filter` asks
   of a step. (Real orders need Poisson summation; mu-GDP needs the trade-off curve: on paper,
   docs/proofs/discrete_gaussian_gdp.md.) *)
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
