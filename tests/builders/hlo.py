"""Modules of HLO, in the form that XLA writes for the CPU, for GPUs and for TPUs; small, written by hand."""

from __future__ import annotations

SCHEDULED = r"""HloModule jit_step, is_scheduled=true, input_output_alias={ {0}: (1, {}, may-alias) }

FileNames
1 "/home/me/net.py"

FileLocations
1 {file_name_id=1 function_name_id=1 line=12 end_line=12 column=2 end_column=43}

StackFrames
1 {file_location_id=1 parent_frame_id=1}


%fused (p0: f32[8,32]) -> f32[8,32] {
  %p0 = f32[8,32]{1,0} parameter(0)
  ROOT %tanh = f32[8,32]{1,0} tanh(%p0)
}

ENTRY %main (x.1: f32[8,16], w.1: f32[16,32]) -> (f32[16,32], f32[8,32]) {
  %x.1 = f32[8,16]{1,0} parameter(0), metadata={op_name="x"}
  %w.1 = f32[16,32]{1,0} parameter(1), metadata={op_name="w"}
  %dot.1 = f32[8,32]{1,0} dot(%x.1, %w.1), lhs_contracting_dims={1}, metadata={op_name="dot, \"a\" {" stack_frame_id=1}
  %tanh_fusion = f32[8,32]{1,0} fusion(%dot.1), kind=kLoop, calls=%fused, backend_config={"partitions":["2"]}
  %dot.2 = f32[16,32]{1,0} dot(%x.1, %tanh_fusion), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  %new = f32[16,32]{1,0} subtract(%w.1, /*index=1*/%dot.2)
  ROOT %tuple.1 = (f32[16,32]{1,0}, /*index=1*/f32[8,32]{1,0}) tuple(%new, %tanh_fusion)
}
"""

LOOP = """HloModule loop, is_scheduled=true

%body (c: (s32[], f32[4], f32[4])) -> (s32[], f32[4], f32[4]) {
  %c = (s32[], f32[4]{0}, f32[4]{0}) parameter(0)
  %i = s32[] get-tuple-element(%c), index=0
  %acc = f32[4]{0} get-tuple-element(%c), index=1
  %x = f32[4]{0} get-tuple-element(%c), index=2
  %one = s32[] constant(1)
  %next = s32[] add(%i, %one)
  %copy.2 = f32[4]{0} copy(%acc)
  %sum = f32[4]{0} add(%copy.2, %x)
  %square = f32[4]{0} dot(%sum, %x), lhs_contracting_dims={}, rhs_contracting_dims={}
  ROOT %out = (s32[], f32[4]{0}, f32[4]{0}) tuple(%next, %square, %x)
}

%condition (c.1: (s32[], f32[4], f32[4])) -> pred[] {
  %c.1 = (s32[], f32[4]{0}, f32[4]{0}) parameter(0)
  %i.1 = s32[] get-tuple-element(%c.1), index=0
  %limit = s32[] constant(10)
  ROOT %less = pred[] compare(%i.1, %limit), direction=LT
}

ENTRY %main (x.0: f32[4]) -> f32[4] {
  %x.0 = f32[4]{0} parameter(0)
  %zero = s32[] constant(0)
  %start = s32[] copy(%zero)
  %first = f32[4]{0} copy(%x.0)
  %given = (s32[], f32[4]{0}, f32[4]{0}) tuple(%start, %first, %x.0)
  %loop = (s32[], f32[4]{0}, f32[4]{0}) while(%given), condition=%condition, body=%body
  %last = f32[4]{0} get-tuple-element(%loop), index=1
  %same = f32[4]{0} get-tuple-element(%loop), index=2
  ROOT %result = f32[4]{0} dot(%last, %same), lhs_contracting_dims={}, rhs_contracting_dims={}
}
"""

BRANCHES = """HloModule branches, is_scheduled=true

%wide (a: f32[100]) -> f32[10] {
  %a = f32[100]{0} parameter(0)
  %b = f32[300]{0} concatenate(%a, %a, %a), dimensions={0}
  ROOT %c = f32[10]{0} slice(%b), slice={[0:10]}
}

%slim (a.1: f32[100]) -> f32[10] {
  %a.1 = f32[100]{0} parameter(0)
  ROOT %c.1 = f32[10]{0} slice(%a.1), slice={[0:10]}
}

%negated (n: f32[100]) -> f32[100] {
  %n = f32[100]{0} parameter(0)
  ROOT %m = f32[100]{0} negate(%n)
}

ENTRY %main (p: pred[], x: f32[100]) -> f32[10] {
  %p = pred[] parameter(0)
  %x = f32[100]{0} parameter(1)
  %y = f32[100]{0} reverse(%x), dimensions={0}
  %z = f32[100]{0} call(%y), to_apply=%negated
  ROOT %r = f32[10]{0} conditional(%p, %z, %z), true_computation=%wide, false_computation=%slim
}
"""

# A TPU's module: tiles, two memories, copies between them that run beside other ops
TPU = """HloModule tpu, is_scheduled=true, entry_computation_layout={(f32[8])->f32[8]}

ENTRY %main.9 (p.1: bf16[8,128]) -> bf16[8,128] {
  %p.1 = bf16[8,128]{1,0:T(8,128)(2,1)} parameter(0), sharding={replicated}
  %copy-start = (bf16[8,128]{1,0:T(8,128)(2,1)S(1)}, bf16[8,128]{1,0:T(8,128)(2,1)}, u32[]{:S(2)}) copy-start(%p.1)
  %beside = bf16[8,128]{1,0:T(8,128)(2,1)} reverse(%p.1), dimensions={0}
  %copy-done = bf16[8,128]{1,0:T(8,128)(2,1)S(1)} copy-done(%copy-start)
  %sum = bf16[8,128]{1,0:T(8,128)(2,1)} add(%copy-done, %beside), control-predecessors={%beside}
  %reduced = bf16[8,128]{1,0:T(8,128)(2,1)} all-reduce-start(%sum), replica_groups={{0,1}}
  %done = bf16[8,128]{1,0:T(8,128)(2,1)} all-reduce-done(%reduced)
  ROOT %out = bf16[8,128]{1,0:T(8,128)(2,1)} negate(%done)
}
"""

# A GPU's module: a product with scratch, results that lie in operands, gathering beside a product
GPU = """HloModule gpu, is_scheduled=true

%wrapped (w.0: f32[4,64]) -> f32[8,64] {
  %w.0 = f32[4,64]{1,0} parameter(0)
  ROOT %gathered = f32[8,64]{1,0} all-gather(%w.0), channel_id=1, replica_groups={{0,1}}, dimensions={0}
}

ENTRY %main (x: f32[64,64], w: f32[4,64]) -> f32[64,8] {
  %x = f32[64,64]{1,0} parameter(0)
  %w = f32[4,64]{1,0} parameter(1)
  %start = ((f32[4,64]{1,0}), f32[8,64]{1,0}) all-gather-start(%w), channel_id=1, dimensions={0}
  %product = (f32[64,64]{1,0}, s8[4096]{0}) custom-call(%x, %x), custom_call_target="__cublas$gemm"
  %only = f32[64,64]{1,0} get-tuple-element(%product), index=0
  %changed = f32[64,64]{1,0} custom-call(%only), custom_call_target="in_place", output_to_operand_aliasing={{}: (0, {})}
  %finish = f32[8,64]{1,0} all-gather-done(%start)
  ROOT %last = f32[64,8]{1,0} dot(%changed, %finish), lhs_contracting_dims={1}, rhs_contracting_dims={1}
}
"""
