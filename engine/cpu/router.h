// Which experts a row visits. Scalar double arithmetic with an exponential of its own, compiled once for all
// ISA levels, so that the choice never depends on one. Allocates nothing.
#pragma once

#include <cstdint>

#include "engine/model/config.h"

namespace spillway::cpu {

inline constexpr uint32_t kMaxExperts = 1024;

struct ExpertChoice {
  uint32_t expert = 0;
  float weight = 0.0f;
};

// Best first, ties to the lowest index, as ref::ChooseExperts. logits, selection_bias (n_expert; the bias may
// be nullptr), out (n_used).
void ChooseExperts(const ExpertSpec& spec, const float* logits, const float* selection_bias,
                   ExpertChoice* out);

// 1 / (1 + e^-x).
// e^x, x clamped to [-700, 700]; the same bits on every machine.
double Exp(double x);
double Sigmoid(double x);

}  // namespace spillway::cpu
