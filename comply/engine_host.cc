#include "comply/engine_host.h"

#include "core/base/assert.h"
#include "net/endpoint.h"

namespace mroce::comply {
namespace {

class UdpHost final : public EngineHost, private net::EventSink {
 public:
  tl::expected<void, std::string> open(const net::Settings& settings) {
    auto opened = net::Endpoint::open(settings, *this);
    if (!opened) return tl::unexpected(opened.error());
    endpoint_ = std::move(*opened);
    return {};
  }
  uint8_t slot() const override { return endpoint_->slot(); }

 private:
  void on_event(const Event&) override {}
  void run(const std::function<void(Engine&, Time)>& use) override {
    bool ran = false;
    endpoint_->command([&](Engine& engine, Time now) {
      use(engine, now);
      ran = true;
      return Status{};
    });
    MROCE_ASSERT(ran);  // it is closed by nobody but the destructor
  }
  std::unique_ptr<net::Endpoint> endpoint_;
};

}  // namespace

tl::expected<std::unique_ptr<EngineHost>, std::string> open_udp_host(const net::Settings& settings) {
  auto host = std::make_unique<UdpHost>();
  if (auto opened = host->open(settings); !opened) return tl::unexpected(opened.error());
  return host;
}

}  // namespace mroce::comply
