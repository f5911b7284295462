// Ordinary and latent projections. Latent attention in the absorbed form: a query is multiplied by the matrix
// that would make keys of the latent, so that scores are products with the latent itself. Source:
// DeepSeek-V2.
#include "engine/ref/projection.h"

#include <utility>

#include "engine/ref/ops.h"

namespace spillway::ref {
namespace {

// x (rows, n_in) times the matrix, plus the bias if there is one.
std::vector<double> Product(const Weights& matrix, const Weights& bias, std::span<const double> x,
                            uint64_t n_in) {
  std::vector<double> out(x.size() / n_in * (matrix.get().size() / n_in));
  MatMul(matrix.get(), x, n_in, out);
  if (bias.present()) AddBias(out, bias.get());
  return out;
}

// RoPE of every head of `heads` consecutive ones per row, of the dimensions from `first` on.
void RotateHeads(const LayerSpec& spec, const LayerWeights& weights, uint64_t heads, uint64_t first,
                 uint32_t begin, std::span<double> x, uint64_t head_dim) {
  for (uint64_t i = 0; i * head_dim < x.size(); ++i) {
    const std::span<double> head = x.subspan(i * head_dim, head_dim).subspan(first);
    Rope(head, spec.rope, weights.rope_frequencies, begin + static_cast<uint32_t>(i / heads));
    if (spec.qk_norm == QkNorm::kAfterRope) RmsNorm(head, {}, spec.norm_eps, head);
  }
}

void Temper(const LayerSpec& spec, uint32_t begin, std::span<double> q) {
  const size_t row = size_t{spec.n_head} * spec.head_dim;
  for (size_t r = 0; r * row < q.size(); ++r) {
    Scale(q.subspan(r * row, row), spec.Temperature(begin + static_cast<uint32_t>(r)));
  }
}

// (heads, 2, head_dim) queries and gates to each by itself.
void SplitGate(size_t head_dim, Projection* p) {
  std::vector<double> q;
  for (size_t i = 0; i < p->q.size(); ++i) {
    (i / head_dim % 2 == 0 ? q : p->gate).push_back(p->q[i]);
  }
  p->q = std::move(q);
}

Projection ProjectHeads(const LayerSpec& spec, const LayerWeights& w, std::span<const double> normed,
                        uint64_t n_embd, uint32_t begin) {
  Projection p = {Product(w.attn_q, w.attn_q_bias, normed, n_embd),
                  Product(w.attn_k, w.attn_k_bias, normed, n_embd),
                  Product(w.attn_v, w.attn_v_bias, normed, n_embd),
                  {}};
  if (spec.output_gate) SplitGate(spec.head_dim, &p);
  // QK-norm of heads or rows: the weight's size says which.
  if (w.attn_q_norm.present()) p.q = NormRows(w.attn_q_norm, spec.norm_eps, p.q);
  if (w.attn_k_norm.present()) p.k = NormRows(w.attn_k_norm, spec.norm_eps, p.k);
  RotateHeads(spec, w, spec.n_head, 0, begin, p.q, spec.head_dim);
  RotateHeads(spec, w, spec.n_head_kv, 0, begin, p.k, spec.head_dim);
  Temper(spec, begin, p.q);
  return p;
}

Projection ProjectLatent(const LayerSpec& spec, const LayerWeights& w, std::span<const double> normed,
                         uint64_t n_embd, uint32_t begin) {
  const uint64_t n_latent = spec.latent.n_latent;
  const uint64_t n_key = spec.head_dim - spec.rope.n_rot;
  std::vector<double> q;
  if (w.attn_q.present()) {
    q = Product(w.attn_q, {}, normed, n_embd);
  } else {
    const std::vector<double> low =
        NormRows(w.attn_q_a_norm, spec.norm_eps, Product(w.attn_q_a, {}, normed, n_embd));
    q = Product(w.attn_q_b, {}, low, spec.latent.n_q_latent);
  }
  RotateHeads(spec, w, spec.n_head, n_key, begin, q, spec.head_dim);
  Temper(spec, begin, q);

  Projection p;
  p.k = Product(w.attn_kv_a, {}, normed, n_embd);
  for (size_t row = 0; row < p.k.size(); row += spec.KeyDim()) {
    const std::span<double> latent = std::span(p.k).subspan(row, n_latent);
    RmsNorm(latent, w.attn_kv_a_norm.get(), spec.norm_eps, latent);
  }
  RotateHeads(spec, w, 1, n_latent, begin, p.k, spec.KeyDim());
  for (size_t head = 0; head * spec.head_dim < q.size(); ++head) {
    const std::span<const double> from = std::span(q).subspan(head * spec.head_dim, spec.head_dim);
    std::vector<double> absorbed(n_latent);
    MatMul(w.attn_k_b.Part(head % spec.n_head, spec.n_head), from.first(n_key), n_key, absorbed);
    p.q.insert(p.q.end(), absorbed.begin(), absorbed.end());
    p.q.insert(p.q.end(), from.begin() + static_cast<ptrdiff_t>(n_key), from.end());
  }
  return p;
}

}  // namespace

Projection Project(const LayerSpec& spec, const LayerWeights& weights, std::span<const double> normed,
                   uint32_t begin) {
  const uint64_t n_embd = weights.attn_norm.get().size();
  return spec.Latent() ? ProjectLatent(spec, weights, normed, n_embd, begin)
                       : ProjectHeads(spec, weights, normed, n_embd, begin);
}

std::vector<double> HeadOutputs(const LayerSpec& spec, const LayerWeights& weights,
                                std::vector<double> attended) {
  if (!spec.Latent()) return attended;
  const uint64_t n_latent = spec.latent.n_latent;
  const uint64_t n_value = spec.latent.n_value;
  const size_t heads = attended.size() / n_latent;
  std::vector<double> values(heads * n_value);
  for (size_t head = 0; head < heads; ++head) {
    MatMul(weights.attn_v_b.Part(head % spec.n_head, spec.n_head),
           std::span(attended).subspan(head * n_latent, n_latent), n_latent,
           std::span(values).subspan(head * n_value, n_value));
  }
  return values;
}

}  // namespace spillway::ref
