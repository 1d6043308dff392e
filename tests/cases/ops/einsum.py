"""Rows for exporter/lowering/lowerings/einsum.py."""

import torch

from tests.cases.ops import INTS, Draw, OpCase, f

einsum = torch.ops.aten.einsum.default

DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16, *INTS)


def case(equation: str, *tensors: Draw, **options: object) -> OpCase:
    return OpCase(einsum, equation, list(tensors), **options)


CASES = (
    # Matrices and vectors.
    case("ij,jk->ik", f(2, 3), f(3, 4), dtypes=DTYPES, dynamic="n k, k m"),
    case("ij,jk->ki", f(2, 3), f(3, 4), dynamic="n k, k m"),
    case("ij,jk", f(2, 3), f(3, 4)),
    case("ij,kj->ik", f(2, 3), f(4, 3)),
    case("i,i->", f(3), f(3), dynamic="n, n"),
    case("i,j->ij", f(3), f(4), dtypes=DTYPES, dynamic="n, m"),
    case("ij,j->i", f(2, 3), f(3)),
    case("j,ij->i", f(3), f(2, 3)),
    # Batches.
    case("bij,bjk->bik", f(5, 2, 3), f(5, 3, 4), dtypes=DTYPES, dynamic="b n 3, b 3 m"),
    case("bqhd,bkhd->bhqk", f(2, 4, 3, 8), f(2, 6, 3, 8), dynamic="b q 3 8, b k 3 8"),
    case("bhqk,bkhd->bqhd", f(2, 3, 4, 6), f(2, 6, 3, 8), dynamic="b 3 q k, b k 3 8"),
    case("bhqd,bhkd->bhqk", f(1, 3, 4, 8), f(1, 3, 6, 8)),
    case("btd,dhk->bthk", f(2, 5, 8), f(8, 3, 4), dynamic="b t 8, 8 3 4"),
    case("bthk,hkd->btd", f(2, 5, 3, 4), f(3, 4, 8), dynamic="b t 3 4, 3 4 8"),
    case("bn,bnm->bm", f(2, 3), f(2, 3, 4), dynamic="b n, b n 4"),
    case("bnm,bn->bm", f(2, 3, 4), f(2, 3)),
    case("bi,bi->b", f(2, 3), f(2, 3), dynamic="b n, b n"),
    case("abcd,abef->acdef", f(2, 3, 4, 5), f(2, 3, 2, 3), dynamic="a b 4 5, a b 2 3"),
    case("abcd,abef->abcdef", f(2, 3, 4, 5), f(2, 3, 2, 3)),
    case("abxc,abxd->abcd", f(2, 3, 6, 4), f(2, 3, 6, 5), dynamic="a b x 4, a b x 5"),
    case("abij,abkl->ijkl", f(2, 3, 2, 2), f(2, 3, 3, 3)),
    # One operand.
    case("ij->ji", f(2, 3), dtypes=DTYPES, dynamic="n m"),
    case("ij->", f(2, 3)),
    case("ijk->ki", f(2, 3, 4), dynamic="n m 4"),
    case("ii->i", f(3, 3), dynamic="n n"),
    case("ii->", f(3, 3)),
    case("bijj->bi", f(2, 4, 3, 3), dynamic="b 4 n n"),
    case("iii->i", f(3, 3, 3)),
    case("ba", f(2, 3)),
    case("bA", f(2, 3)),
    # Three and more.
    case("ij,jk,kl->il", f(2, 3), f(3, 4), f(4, 5), dynamic="n 3, 3 4, 4 m"),
    case("bi,ijk,bk->bj", f(2, 3), f(3, 4, 5), f(2, 5), dynamic="b 3, 3 4 5, b 5"),
    case("i,j,k->ijk", f(2), f(3), f(4)),
    case("ij,jk,kl->il", f(2, 3), f(3, 4), f(4, 5), path=[1, 2, 0, 1]),
    case("ijj,k,jk->i", f(2, 3, 3), f(4), f(3, 4)),
    # Ellipses and sizes that broadcast.
    case("...ij,...jk->...ik", f(6, 5, 2, 3), f(5, 3, 4), dynamic="a b n 3, b 3 m"),
    case("...ij,...jk", f(1, 5, 2, 3), f(6, 1, 3, 4)),
    case("...i,i...->...", f(4, 3), f(3, 4)),
    case("...,...->...", f(2, 3), f(3)),
    case("i...->...", f(2, 3, 4), dynamic="n 3 m"),
    case("bij,bjk->bik", f(1, 2, 3), f(5, 3, 4)),
    case("bij,bjk->bik", f(5, 2, 1), f(5, 3, 4)),
    case("ij,ij->ij", f(1, 3), f(2, 1)),
    # Sizes of none.
    case("ij,jk->ik", f(2, 0), f(0, 4)),
    case("bij,bjk->bik", f(0, 2, 3), f(0, 3, 4)),
    case("ii->i", f(0, 0)),
)
