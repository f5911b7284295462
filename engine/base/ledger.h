// The ledger: every large allocation of a worker, by purpose, against a budget. Sizes are the requested bytes
// rounded up to 64. What the plan promised, `allocated` reports from here to the byte (law 3).
#pragma once

#include <absl/status/statusor.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string_view>

namespace spillway {

enum class Purpose : uint8_t {
  kWeights,
  kKvCache,
  kRecurrentState,
  kActivations,
  kWorkspace,
  kStaging,
  kContext
};
inline constexpr size_t kPurposes = 7;
inline constexpr std::array<std::string_view, kPurposes> kPurposeNames = {
    "weights", "kv_cache", "recurrent_state", "activations", "workspace", "staging", "context"};

constexpr std::string_view PurposeName(Purpose purpose) {
  return kPurposeNames[static_cast<size_t>(purpose)];
}
constexpr uint64_t LedgerBytes(uint64_t bytes) { return (bytes + 63) / 64 * 64; }

// Bytes by purpose; plain value.
struct PurposeBytes {
  std::array<uint64_t, kPurposes> bytes = {};
  uint64_t& operator[](Purpose purpose) { return bytes[static_cast<size_t>(purpose)]; }
  uint64_t operator[](Purpose purpose) const { return bytes[static_cast<size_t>(purpose)]; }
  uint64_t Total() const;
  PurposeBytes& operator+=(const PurposeBytes& other);
  bool operator==(const PurposeBytes&) const = default;
};

class Ledger;

// Owns 64-byte aligned memory (or, for a mapped weight, only the booking of it). Move-only. The ledger
// outlives it.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  uint64_t size() const { return size_; }
  template <typename T>
  std::span<T> As() {
    return {reinterpret_cast<T*>(data_), size_ / sizeof(T)};
  }

 private:
  friend class Ledger;
  void Free();

  Ledger* ledger_ = nullptr;
  Purpose purpose_ = Purpose::kWeights;
  std::byte* data_ = nullptr;
  uint64_t size_ = 0;  // as booked
};

// Thread-safe.
class Ledger {
 public:
  static constexpr uint64_t kUnlimited = ~uint64_t{0};
  explicit Ledger(uint64_t budget_bytes = kUnlimited) : budget_bytes_(budget_bytes) {}
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  // Zeroed memory. ResourceExhausted when the budget or the machine has too little; then nothing is booked.
  absl::StatusOr<Buffer> Allocate(Purpose purpose, uint64_t bytes, std::string_view what);
  // Books bytes that live in a mapped file.
  absl::StatusOr<Buffer> Book(Purpose purpose, uint64_t bytes, std::string_view what);

  PurposeBytes Allocated() const;
  uint64_t budget_bytes() const { return budget_bytes_; }
  uint64_t allocation_failures() const;

 private:
  friend class Buffer;
  absl::Status Reserve(Purpose purpose, uint64_t bytes, std::string_view what);
  void Release(Purpose purpose, uint64_t booked);

  const uint64_t budget_bytes_;
  mutable std::mutex mutex_;
  PurposeBytes allocated_;
  uint64_t failures_ = 0;
};

}  // namespace spillway
