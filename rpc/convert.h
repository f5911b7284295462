// Proto ↔ engine. Every field that comes from a peer is checked here, in 64 bits, before memory is sized by
// it; what passes is safe to hand to a Stage. Knows no streams and no threads.
#pragma once

#include <absl/status/statusor.h>
#include <grpcpp/support/status.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/base/ledger.h"
#include "engine/stage/stage.h"
#include "spillway/v1/worker.pb.h"

namespace spillway::rpc {

// Status codes have the same numbers on both sides; an unknown number becomes Unknown.
grpc::Status ToGrpc(const absl::Status& status);
absl::Status FromGrpc(const grpc::Status& status);

void ToProto(const StageUnits& units, v1::StageUnits* proto);
void ToProto(const StageOptions& options, v1::StageOptions* proto);
void ToProto(const PurposeBytes& bytes, v1::MemoryByPurpose* proto);
void ToProto(const SamplingParams& params, v1::SamplingParameters* proto);
void ToProto(const Segment& segment, v1::Segment* proto);
void ToProto(const SegmentResult& result, v1::SegmentResult* proto);

// InvalidArgument when the layers are no range inside [0, n_layer] or nothing is held at all.
absl::StatusOr<StageUnits> UnitsFromProto(const v1::StageUnits& proto, uint32_t n_layer);
// InvalidArgument naming the option that is 0 or beyond its bound.
absl::StatusOr<StageOptions> OptionsFromProto(const v1::StageOptions& proto);
PurposeBytes BytesFromProto(const v1::MemoryByPurpose& proto);
// Bounds the lists only; ranges are checked by Stage::Open, which knows the vocabulary.
absl::StatusOr<SamplingParams> SamplingFromProto(const v1::SamplingParameters& proto);
absl::StatusOr<SegmentResult> ResultFromProto(const v1::SegmentResult& proto);

// Rows of a micro-batch, when its segments are well-formed: 1..max_rows rows in all, no empty segment, known
// output kinds, positions inside 32 bits. InvalidArgument names the segment.
absl::StatusOr<uint64_t> CheckSegments(const v1::Forward& forward, uint32_t max_rows);
// Appends the segments to `segments`; tokens borrow from `forward`. CheckSegments must have passed.
void SegmentsFromProto(const v1::Forward& forward, std::vector<Segment>* segments);

// Bytes of one element; InvalidArgument for an unspecified or unknown type.
absl::StatusOr<uint64_t> ActivationBytes(v1::ActivationType type);
// The payload as (count) floats: borrowed when it is f32 and aligned, else decoded into `storage`.
// InvalidArgument when the type is unknown or the bytes are not count elements.
absl::StatusOr<std::span<const float>> DecodeActivations(v1::ActivationType type, const std::string& bytes,
                                                         uint64_t count, std::vector<float>* storage);
// Appends the rows to `bytes` in the given (known) type; f32 is copied untouched.
void EncodeActivations(std::span<const float> values, v1::ActivationType type, std::string* bytes);

}  // namespace spillway::rpc
