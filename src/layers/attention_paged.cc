#include <span>
#include <vector>

#include "layers/attention.h"

namespace lamina {
namespace {

void store(const ForwardContext& ctx, ConstF32View x, const KvTensor& tensor, int64_t begin, int64_t end) {
  const std::span<const int64_t> slots(ctx.batch.out_cache_loc);
  ctx.compute.kernels->store_kv(x.slice(begin, end - begin), slots.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)),
                                kv_target(tensor));
}

class PagedBackend final : public AttentionBackend {
 public:
  explicit PagedBackend(bool exact) : exact_(exact) {}
  const char* name() const override { return "paged"; }

  void forward(ForwardContext& ctx, const AttentionCall& call) override {
    const RadixAttentionSpec& spec = call.spec;
    const KvTensor& keys = ctx.kv.keys(spec.layer_id);
    const KvTensor& values = ctx.kv.values(spec.layer_id);
    ThreadTeam& team = *ctx.compute.team;
    if (call.save_kv_cache) {
      constexpr int64_t kGrain = 16;  // rows that pay for handing them to a thread
      team.parallel_for(call.keys.rows, kGrain, [&](int64_t begin, int64_t end, int) {
        store(ctx, call.keys, keys, begin, end);
        store(ctx, call.values, values, begin, end);
      });
    }
    kernels::AttentionArgs args = shape(spec);
    args.q = call.q, args.out = call.out;
    args.keys = kv_source(keys), args.values = kv_source(values);
    args.page_size = ctx.batch.page_size;
    args.exact = exact_;
    collect(ctx.batch);
    const size_t mark = ctx.arena().mark();
    void* scratch = ctx.arena().take_bytes(stage_bytes(spec, team.size()));
    kernels::attention(*ctx.compute.kernels, team, args, sequences_, scratch);
    ctx.arena().release(mark);
  }

  size_t stage_bytes(const RadixAttentionSpec& spec, int threads) const override {
    return static_cast<size_t>(threads) * kernels::attention_scratch_bytes(shape(spec));
  }

 private:
  static kernels::AttentionArgs shape(const RadixAttentionSpec& spec) {
    kernels::AttentionArgs args;
    args.q_heads = spec.q_heads, args.kv_heads = spec.kv_heads;
    args.qk_dim = spec.qk_dim, args.v_dim = spec.v_dim;
    args.scale = spec.scale, args.logit_cap = spec.logit_cap;
    args.window = spec.window;
    args.mask = attention_mask(spec.type);
    return args;
  }

  void collect(const ForwardBatch& batch) {
    sequences_.clear();
    for (const BatchSequence& sequence : batch.sequences) {
      sequences_.push_back({.query_begin = sequence.row_begin,
                            .query_count = sequence.row_count,
                            .query_position = sequence.prefix_len,
                            .kv_len = sequence.prefix_len + sequence.row_count,
                            .pages = batch.pages.data() + sequence.page_begin});
    }
  }

  bool exact_;
  std::vector<kernels::AttentionSequence> sequences_;  // keeps its capacity from step to step
};

}  // namespace

std::unique_ptr<AttentionBackend> make_paged_backend(bool exact) { return std::make_unique<PagedBackend>(exact); }

}  // namespace lamina
