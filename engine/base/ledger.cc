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
  if (this == &other) return *this;
  Free();
  ledger_ = std::exchange(other.ledger_, nullptr);
  purpose_ = other.purpose_;
  data_ = std::exchange(other.data_, nullptr);
  size_ = std::exchange(other.size_, 0);
  return *this;
}

Buffer::~Buffer() { Free(); }

void Buffer::Free() {
  std::free(data_);
  if (ledger_ != nullptr) ledger_->Release(purpose_, size_);
}

absl::StatusOr<Buffer> Ledger::Allocate(Purpose purpose, uint64_t bytes, std::string_view what) {
  SPILLWAY_ASSIGN_OR_RETURN(Buffer buffer, Book(purpose, bytes, what));
  const uint64_t booked = buffer.size();
  if (booked == 0) return buffer;
  buffer.data_ = static_cast<std::byte*>(std::aligned_alloc(64, booked));
  if (buffer.data_ == nullptr) {
    std::lock_guard lock(mutex_);
    ++failures_;
    return ResourceExhausted("{}: the machine refused {} bytes of {}", what, booked, PurposeName(purpose));
  }
  std::memset(buffer.data_, 0, booked);  // touched now: a planned byte must not fail at first use
  return buffer;
}

absl::StatusOr<Buffer> Ledger::Book(Purpose purpose, uint64_t bytes, std::string_view what) {
  SPILLWAY_RETURN_IF_ERROR(Reserve(purpose, bytes, what));
  Buffer buffer;
  buffer.ledger_ = this;
  buffer.purpose_ = purpose;
  buffer.size_ = LedgerBytes(bytes);
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

absl::Status Ledger::Reserve(Purpose purpose, uint64_t bytes, std::string_view what) {
  std::lock_guard lock(mutex_);
  const uint64_t used = allocated_.Total();
  const uint64_t free = budget_bytes_ - used;
  const uint64_t booked = LedgerBytes(bytes);
  // booked < bytes: rounding up went past 64 bits.
  if (booked < bytes || booked > free) {
    ++failures_;
    return ResourceExhausted("{}: {} bytes of {} do not fit: {} of the budget of {} bytes are used", what,
                             bytes, PurposeName(purpose), used, budget_bytes_);
  }
  allocated_[purpose] += booked;
  return absl::OkStatus();
}

void Ledger::Release(Purpose purpose, uint64_t booked) {
  std::lock_guard lock(mutex_);
  allocated_[purpose] -= booked;
}

}  // namespace spillway
