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

# Branches that write results: one reads its operand first, and one element by element
OVER = """HloModule over, is_scheduled=true

%twice (a: f32[100]) -> f32[100] {
  %a = f32[100]{0} parameter(0)
  %b = f32[100]{0} reverse(%a), dimensions={0}
  ROOT %c = f32[100]{0} reverse(%b), dimensions={0}
}

%less (d: f32[100]) -> f32[100] {
  %d = f32[100]{0} parameter(0)
  ROOT %e = f32[100]{0} negate(%d)
}

ENTRY %main (p: pred[], x: f32[100]) -> f32[100] {
  %p = pred[] parameter(0)
  %x = f32[100]{0} parameter(1)
  %y = f32[100]{0} reverse(%x), dimensions={0}
  ROOT %r = f32[100]{0} conditional(%p, %y, %y), branch_computations={%twice, %less}
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

# A step of training on GPUs: gathering and reducing beside other ops, products with scratch, a kernel of Triton
GPU_STEP = r"""HloModule jit_step, is_scheduled=true, input_output_alias={ {0}: (0, {}, may-alias) }, num_partitions=2

%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %a_b = f32[] add(%a, %b)
}

%triton_softmax_computation (p.0: f32[256,256]) -> f32[256,256] {
  %p.0 = f32[256,256]{1,0} parameter(0)
  %exp = f32[256,256]{1,0} exponential(%p.0)
  %zero = f32[] constant(0)
  %rows = f32[256]{0} reduce(%exp, %zero), dimensions={1}, to_apply=%sum
  %wide = f32[256,256]{1,0} broadcast(%rows), dimensions={0}
  ROOT %divide = f32[256,256]{1,0} divide(%exp, %wide)
}

%fused_reduce (p.1: f32[256,256]) -> f32[] {
  %p.1 = f32[256,256]{1,0} parameter(0)
  %zero.1 = f32[] constant(0)
  ROOT %total = f32[] reduce(%p.1, %zero.1), dimensions={0,1}, to_apply=%sum
}

%fused_update (w.0: bf16[256,256], g.0: f32[256,256]) -> bf16[256,256] {
  %w.0 = bf16[256,256]{1,0} parameter(0)
  %g.0 = f32[256,256]{1,0} parameter(1)
  %wide.1 = f32[256,256]{1,0} convert(%w.0)
  %less = f32[256,256]{1,0} subtract(%wide.1, %g.0)
  ROOT %narrow = bf16[256,256]{1,0} convert(%less)
}

ENTRY %main.42_spmd (w: bf16[256,256], x: bf16[128,256]) -> (bf16[256,256], f32[]) {
  %w = bf16[256,256]{1,0} parameter(0), sharding={replicated}, metadata={op_name="w"}
  %x = bf16[128,256]{1,0} parameter(1), sharding={devices=[2,1]<=[2]}, metadata={op_name="x"}
  %all-gather-start = (bf16[128,256]{1,0}, bf16[256,256]{1,0}) all-gather-start(bf16[128,256]{1,0} %x),
      channel_id=1, replica_groups=[1,2]<=[2], dimensions={0}, use_global_device_ids=true,
      backend_config={"operation_queue_id":"0","collective_backend_config":{"is_sync":false}}
  %all-gather-done = bf16[256,256]{1,0} all-gather-done((bf16[128,256]{1,0}, bf16[256,256]{1,0}) %all-gather-start)
  %cublas-gemm.1 = (f32[256,256]{1,0}, s8[65536]{0}) custom-call(%all-gather-done, %w),
      custom_call_target="__cublas$lt$matmul",
      metadata={op_name="jit(step)/jvp(dense)/dot_general" source_file="/home/me/model.py" source_line=21},
      backend_config={"gemm_backend_config":{"alpha_real":1,"epilogue":"DEFAULT"}}
  %logits = f32[256,256]{1,0} get-tuple-element((f32[256,256]{1,0}, s8[65536]{0}) %cublas-gemm.1), index=0
  %triton_softmax = f32[256,256]{1,0} fusion(%logits), kind=kCustom, calls=%triton_softmax_computation,
      metadata={op_name="jit(step)/jvp(softmax)/div" source_file="/home/me/model.py" source_line=34},
      backend_config={"fusion_backend_config":{"kind":"__triton",
      "block_level_fusion_config":{"num_warps":"4","output_tiles":[{"sizes":["1","256"]}]}}}
  %loss = f32[] fusion(%triton_softmax), kind=kInput, calls=%fused_reduce
  %cublas-gemm.2 = (f32[256,256]{1,0}, s8[65536]{0}) custom-call(%all-gather-done, %triton_softmax),
      custom_call_target="__cublas$gemm",
      metadata={op_name="jit(step)/transpose(jvp(dense))/dot_general" source_file="/home/me/model.py" source_line=21}
  %gradient = f32[256,256]{1,0} get-tuple-element(%cublas-gemm.2), index=0
  %all-reduce-start = f32[256,256]{1,0} all-reduce-start(%gradient), channel_id=2, replica_groups=[1,2]<=[2],
      to_apply=%sum
  %all-reduce-done = f32[256,256]{1,0} all-reduce-done(%all-reduce-start)
  %loop_convert_fusion = bf16[256,256]{1,0} fusion(%w, %all-reduce-done), kind=kLoop, calls=%fused_update
  ROOT %tuple = (bf16[256,256]{1,0}, f32[]) tuple(%loop_convert_fusion, %loss)
}
"""

# A GPU's module that moves an array to the host, and fetches it
OFFLOADED = """HloModule jit_offloaded, is_scheduled=true

ENTRY %main (x: f32[1024,1024]) -> f32[1024,1024] {
  %x = f32[1024,1024]{1,0} parameter(0)
  %act = f32[1024,1024]{1,0} tanh(%x), metadata={op_name="jit(f)/tanh" source_file="net.py" source_line=7}
  %copy-start = (f32[1024,1024]{1,0:S(5)}, f32[1024,1024]{1,0}, u32[]) copy-start(f32[1024,1024]{1,0} %act)
  %other = f32[1024,1024]{1,0} sine(%act)
  %copy-done = f32[1024,1024]{1,0:S(5)} copy-done((f32[1024,1024]{1,0:S(5)}, f32[1024,1024]{1,0}, u32[]) %copy-start)
  %more = f32[1024,1024]{1,0} dot(%other, %other), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %copy-start.1 = (f32[1024,1024]{1,0}, f32[1024,1024]{1,0:S(5)}, u32[]) copy-start(%copy-done)
  %copy-done.1 = f32[1024,1024]{1,0} copy-done(%copy-start.1)
  ROOT %result = f32[1024,1024]{1,0} add(%more, %copy-done.1)
}
"""

# A TPU's module: tiles of 16-bit numbers, weights and a product in its fast memory
TPU_STEP = r"""HloModule jit_layer, is_scheduled=true, replica_count=8

FileNames
1 "/home/me/layer.py"

FileLocations
1 {file_name_id=1 function_name_id=1 line=9 end_line=9 column=2 end_column=43}

StackFrames
1 {file_location_id=1}

%region (a: bf16[], b: bf16[]) -> bf16[] {
  %a = bf16[]{:T(256)} parameter(0)
  %b = bf16[]{:T(256)} parameter(1)
  ROOT %a_b = bf16[]{:T(256)} add(%a, %b)
}

%fused_product (x.0: bf16[20,100], w.0: bf16[100,300]) -> bf16[20,300] {
  %x.0 = bf16[20,100]{1,0:T(8,128)(2,1)} parameter(0)
  %w.0 = bf16[100,300]{1,0:T(8,128)(2,1)S(1)} parameter(1)
  ROOT %convolution = bf16[20,300]{1,0:T(8,128)(2,1)S(1)} convolution(%x.0, %w.0), dim_labels=bf_io->bf
}

%fused_add (p.0: bf16[20,300], p.1: bf16[300]) -> bf16[20,300] {
  %p.0 = bf16[20,300]{1,0:T(8,128)(2,1)} parameter(0)
  %p.1 = bf16[300]{0:T(512)(128)(2,1)} parameter(1)
  %wide = bf16[20,300]{1,0:T(8,128)(2,1)} broadcast(%p.1), dimensions={1}
  ROOT %add = bf16[20,300]{1,0:T(8,128)(2,1)} add(%p.0, %wide)
}

ENTRY %main.9 (w: bf16[100,300], x: bf16[20,100], b: bf16[300]) -> bf16[20,300] {
  %w = bf16[100,300]{1,0:T(8,128)(2,1)} parameter(0)
  %copy-start = (bf16[100,300]{1,0:T(8,128)(2,1)S(1)}, bf16[100,300]{1,0:T(8,128)(2,1)}, u32[]{:S(2)})
      copy-start(%w), cross_program_prefetch_index=0
  %x = bf16[20,100]{1,0:T(8,128)(2,1)} parameter(1)
  %b = bf16[300]{0:T(512)(128)(2,1)} parameter(2)
  %negate = bf16[300]{0:T(512)(128)(2,1)} negate(%b)
  %copy-done = bf16[100,300]{1,0:T(8,128)(2,1)S(1)} copy-done(%copy-start)
  %fusion = bf16[20,300]{1,0:T(8,128)(2,1)S(1)} fusion(%x, %copy-done), kind=kOutput, calls=%fused_product,
      metadata={op_name="jit(layer)/dot_general" stack_frame_id=1},
      backend_config={"window_config":{"kernel_window_bounds":["1","1"]},
      "used_scoped_memory_configs":[{"memory_space":"1","offset":"0","size":"4096"}]}
  %all-reduce = bf16[20,300]{1,0:T(8,128)(2,1)} all-reduce(%fusion), channel_id=1,
      replica_groups={{0,1,2,3,4,5,6,7}}, to_apply=%region, metadata={op_name="jit(layer)/psum" stack_frame_id=1}
  ROOT %fusion.1 = bf16[20,300]{1,0:T(8,128)(2,1)} fusion(%all-reduce, %negate), kind=kLoop, calls=%fused_add
}
"""

# What is sent and what comes, in two parts each
SENT = """HloModule sent, is_scheduled=true

ENTRY %main (x: f32[256]) -> f32[256] {
  %x = f32[256]{0} parameter(0)
  %token = token[] after-all()
  %y = f32[256]{0} negate(%x)
  %recv = (f32[256]{0}, u32[], token[]) recv(%token), channel_id=1
  %send = (f32[256]{0}, u32[], token[]) send(%y, %token), channel_id=1
  %recv-done = (f32[256]{0}, token[]) recv-done(%recv), channel_id=1
  %come = f32[256]{0} get-tuple-element(%recv-done), index=0
  %send-done = token[] send-done(%send), channel_id=1
  ROOT %last = f32[256]{0} reverse(%come), dimensions={0}
}
"""
