#include "engine/base/ledger.h"

#include <cstdlib>
#include <cstring>
#include <utility>

#include "engine/base/status.h"

namespace spillway {

uint64_t PurposeBytes::Total() const {
  uint64_t total = 0;
  for (uint64_t b : bytes) total += b;
  return total;
}

PurposeBytes& PurposeBytes::operator+=(const PurposeBytes& other) {
  for (size_t i = 0; i < kPurposes; ++i) bytes[i] += other.bytes[i];
  return *this;
}

Buffer::Buffer(Buffer&& other) noexcept { *this = std::move(other); }

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(ledger_, other.ledger_);
  std::swap(purpose_, other.purpose_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

Buffer::~Buffer() {
  std::free(data_);
  if (ledger_ != nullptr) ledger_->Release(purpose_, size_);
}

absl::StatusOr<Buffer> Ledger::Allocate(Purpose purpose, uint64_t bytes, std::string_view what) {
  const uint64_t booked = LedgerBytes(bytes);
  SPILLWAY_RETURN_IF_ERROR(Reserve(purpose, booked, what));
  Buffer buffer;
  buffer.ledger_ = this;
  buffer.purpose_ = purpose;
  buffer.size_ = booked;
  if (booked == 0) return buffer;
  buffer.data_ = static_cast<std::byte*>(std::aligned_alloc(64, booked));
  if (buffer.data_ == nullptr) {
    return ResourceExhausted("{}: the machine refused {} bytes of {}", what, booked, PurposeName(purpose));
  }
  std::memset(buffer.data_, 0, booked);  // touched now: a planned byte must not fail at first use
  return buffer;
}

absl::StatusOr<Buffer> Ledger::Book(Purpose purpose, uint64_t bytes, std::string_view what) {
  const uint64_t booked = LedgerBytes(bytes);
  SPILLWAY_RETURN_IF_ERROR(Reserve(purpose, booked, what));
  Buffer buffer;
  buffer.ledger_ = this;
  buffer.purpose_ = purpose;
  buffer.size_ = booked;
  return buffer;
}

PurposeBytes Ledger::Allocated() const {
  std::lock_guard lock(mutex_);
  return allocated_;
}

uint64_t Ledger::allocation_failures() const {
  std::lock_guard lock(mutex_);
  return failures_;
}

absl::Status Ledger::Reserve(Purpose purpose, uint64_t booked, std::string_view what) {
  std::lock_guard lock(mutex_);
  const uint64_t used = allocated_.Total();
  if (booked > budget_bytes_ || used > budget_bytes_ - booked) {
    ++failures_;
    return ResourceExhausted("{}: {} bytes of {} do not fit: {} of the budget of {} bytes are used", what,
                             booked, PurposeName(purpose), used, budget_bytes_);
  }
  allocated_[purpose] += booked;
  return absl::OkStatus();
}

void Ledger::Release(Purpose purpose, uint64_t booked) {
  std::lock_guard lock(mutex_);
  allocated_[purpose] -= booked;
}

}  // namespace spillway
