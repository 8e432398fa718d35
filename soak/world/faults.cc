#include "soak/world/faults.h"

#include <algorithm>

namespace mroce::soak {

namespace {
constexpr uint64_t kCloggedQueueBytes = 20000;  // short, so that its end is felt soon

struct KindText {
  std::string_view word;
  std::string_view sentence;
};
constexpr std::array<KindText, kFaultKinds> kTexts = {{
#define MROCE_FAULT_TEXT(name, word, sentence) {word, sentence},
    MROCE_FAULT_KINDS(MROCE_FAULT_TEXT)
#undef MROCE_FAULT_TEXT
}};
}  // namespace

std::string_view name_of(FaultKind kind) {
  return kTexts.at(static_cast<size_t>(kind)).word;
}

std::string_view sentence_of(FaultKind kind) {
  return kTexts.at(static_cast<size_t>(kind)).sentence;
}

void Spell::worsen(Faults& faults) const {
  switch (kind) {
    case FaultKind::kLoss:
      faults.loss = std::max(faults.loss, share);
      return;
    case FaultKind::kReorder:
      faults.reorder = std::max(faults.reorder, share);
      faults.reorder_delay = std::max(faults.reorder_delay, delay);
      return;
    case FaultKind::kDuplicate:
      faults.duplicate = std::max(faults.duplicate, share);
      faults.duplicate_after = delay;
      return;
    case FaultKind::kCorrupt:
      faults.corrupt = std::max(faults.corrupt, share);
      return;
    case FaultKind::kTruncate:
      faults.truncate = std::max(faults.truncate, share);
      return;
    case FaultKind::kClog:
      faults.rate_bps = faults.rate_bps == 0 ? rate_bps : std::min(faults.rate_bps, rate_bps);
      faults.queue_bytes = std::min(faults.queue_bytes, kCloggedQueueBytes);
      faults.clogged = true;
      return;
    default:
      return;
  }
}

}  // namespace mroce::soak
