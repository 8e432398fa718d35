// RETRY: whether the sender of an INIT can be reached is found out without keeping anything of it.
//
// While many connections wait for a sign of life, an INIT has to bring a cookie that only the address that it
// claims to come from can have received (RFC 9000, section 8.1.2, in spirit). The cookie is a MAC over what
// identifies the INIT and a time slot, so that the endpoint remembers nothing but its own secret.
#include <algorithm>

#include "core/mroce/engine_impl.h"

namespace mroce {

using wire::Common;
using wire::Init;

namespace {
constexpr Nanos kSlot = seconds(4);  // a cookie is good in its slot and the next one
constexpr size_t kSlotBytes = 4;
constexpr size_t kMacBytes = 16;
constexpr uint32_t kMaxRetries = 4;  // that a connection obeys

uint32_t slot_of(Time now) {
  return static_cast<uint32_t>(ns_of(now) / kSlot.count());
}
}  // namespace

wire::Cookie Engine::Impl::cookie_for(uint32_t slot, const Gid& from, const Init& init) {
  if (!cookie_secret) {
    cookie_secret.emplace();
    draw(*cookie_secret);
  }
  std::array<std::byte, 18> numbers{};
  wire::store_be(numbers.data(), slot);
  wire::store_be(numbers.data() + 4, init.scid);
  wire::store_be(numbers.data() + 8, init.nonce);
  if (!MROCE_MUTANT(kCookieOfAnyPort)) wire::store_be(numbers.data() + 16, init.listen_port);
  const crypto::Key32 mac = crypto::hmac_sha256(*cookie_secret, {from.raw, crypto::as_u8(numbers)});
  wire::Cookie cookie;
  cookie.length = kSlotBytes + kMacBytes;
  std::copy_n(crypto::as_u8(numbers).begin(), kSlotBytes, cookie.bytes.begin());
  std::copy_n(mac.begin(), kMacBytes, cookie.bytes.begin() + kSlotBytes);
  return cookie;
}

bool Engine::Impl::has_good_cookie(Time now, const Gid& from, const Init& init) {
  if (MROCE_MUTANT(kAnyCookie)) return init.cookie.length != 0;
  if (init.cookie.length != kSlotBytes + kMacBytes) return false;
  const auto slot = wire::load_be<uint32_t>(reinterpret_cast<const std::byte*>(init.cookie.bytes.data()));
  if (slot_of(now) - slot > 1 && !MROCE_MUTANT(kCookieForEver)) return false;
  return crypto::same_in_constant_time(cookie_for(slot, from, init).view(), init.cookie.view());
}

void Engine::Impl::send_retry(Time now, const RxMeta& meta, const UdpAddress& peer, const Init& init) {
  Common header;
  header.type = wire::Type::kRetry;
  header.dcid = init.scid;
  std::vector<std::byte> bytes(128);
  const wire::Retry retry{init.nonce, cookie_for(slot_of(now), meta.from.ip, init)};
  const size_t size = wire::encode_retry(header, retry, bytes);
  queue_reply(meta.port, peer, std::move(bytes), size);
  ++counters.retries_sent;
}

// The INIT goes out again at once, with what the RETRY brought.
void Engine::Impl::on_retry(Time now, Connection& c, wire::In datagram) {
  wire::Retry retry;
  if (!wire::decode_retry(datagram, retry)) {
    ++counters.drop_malformed;
    return;
  }
  if (!c.initiator || c.state != Connection::State::kInitSent) return;
  if (retry.nonce != c.nonce && !MROCE_MUTANT(kAnyRetry)) {
    ++counters.drop_connection;
    return;
  }
  if (!c.opening) c.opening = std::make_unique<Opening>();
  if (c.opening->retries == kMaxRetries && !MROCE_MUTANT(kRetriesWithoutEnd)) return;
  ++c.opening->retries;
  c.opening->cookie = retry.cookie;
  c.init_tries = 0;  // it was heard: no reason to offer less
  c.init_at = now;
  want_tx(c);
  reschedule(c);
}

}  // namespace mroce
