// The lines of docs/comply-control.md, one after another, to a session whose engine runs in virtual time and
// hears only itself: what it sends to its own address comes back, everything else goes nowhere. Every answer
// is one line with a JSON object that says ok or why not; whatever was asked for, the engine stays within the
// session's memory regions (the address sanitizer sees it), and ends.
#include <deque>
#include <vector>

#include "comply/control_session.h"
#include "fuzz/input.h"
#include "net/host_memory.h"

using namespace mroce;

namespace {

constexpr size_t kMaxLines = 100;
constexpr uint32_t kMaxRounds = 200;  // of sending and arriving for one command
constexpr Nanos kTick = micros(50);

const Gid kAddress = *net::parse_address("127.0.0.1");

class LoopedHost final : public comply::EngineHost {
 public:
  LoopedHost() : engine_(config(), memory_) {}
  uint8_t slot() const override { return 0; }

  void end() {
    engine_.shutdown(now_);
    for (uint32_t i = 0; i < 20000 && !engine_.quiescent(); ++i) {
      pump();
      now_ = std::max(now_, std::min(engine_.next_deadline(), now_ + seconds(1)));
    }
    fuzz::require(engine_.quiescent(), "an orderly end does not end");
  }

 private:
  static EngineConfig config() {
    EngineConfig config;
    LocalPort port;
    port.address = kAddress;
    config.ports = {port};
    config.endpoint_id.fill(0x31);
    return config;
  }
  void run(const std::function<void(Engine&, Time)>& use) override {
    use(engine_, now_);
    for (uint32_t i = 0; i < kMaxRounds && pump(); ++i) now_ += kTick;
  }
  // False if there was nothing to do.
  bool pump() {
    bool any = now_ >= engine_.next_deadline();
    if (any) engine_.on_timeout(now_);
    TxBurst burst;
    while (engine_.poll_transmit(now_, burst)) {
      any = true;
      if (burst.to.ip != kAddress || burst.to.port != engine_.config().base_port) continue;
      Arrival arrival{{burst.port, {kAddress, 1024}, burst.ecn}, {}, burst.segment_bytes};
      for (const Slice& slice : burst.slices) {
        arrival.bytes.insert(arrival.bytes.end(), slice.data, slice.data + slice.length);
      }
      arriving_.push_back(std::move(arrival));
    }
    for (size_t n = arriving_.size(); n > 0; --n) {
      const Arrival arrival = std::move(arriving_.front());
      arriving_.pop_front();
      engine_.on_burst(now_, arrival.meta, arrival.bytes, arrival.segment_bytes);
    }
    Event event;
    while (engine_.poll_event(event)) any = true;
    return any;
  }

  struct Arrival {
    RxMeta meta;
    std::vector<std::byte> bytes;
    uint32_t segment_bytes;
  };
  net::HostMemory memory_;
  Engine engine_;
  Time now_ = time_from_ns(1000000000);
  std::deque<Arrival> arriving_;
};

void require_answer(const std::string& answer) {
  fuzz::require(answer.find('\n') == std::string::npos, "an answer of several lines", answer);
  const auto json = nlohmann::json::parse(answer, nullptr, false);
  fuzz::require(json.is_object() && json.contains("ok") && json["ok"].is_boolean(), "not an answer", answer);
  if (json["ok"].get<bool>()) return;
  const auto error = json.find("error");
  fuzz::require(error != json.end() && error->is_string(), "a refusal without a reason", answer);
  fuzz::require(!error->get_ref<const std::string&>().empty(), "a refusal says nothing", answer);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  LoopedHost* host = nullptr;
  comply::ControlSession session(
      kAddress, [&](const net::Settings&) -> tl::expected<std::unique_ptr<comply::EngineHost>, std::string> {
        auto made = std::make_unique<LoopedHost>();
        host = made.get();
        return made;
      });
  std::string_view rest = fuzz::text_of(data, size);
  for (size_t i = 0; i < kMaxLines && !rest.empty(); ++i) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    require_answer(session.answer(line));
    (void)comply::parse_host_port(line);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  if (host != nullptr) host->end();
  return 0;
}
