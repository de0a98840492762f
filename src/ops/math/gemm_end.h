/* SPDX-License-Identifier: Apache-2.0 */
/* gemm_end.h - after gemm_block.h: its parameters may be defined again. */
#undef T
#undef V
#undef LANES
#undef fn
#undef SPLAT
#undef MULADD
