// Address handles. Nothing sends to one yet (there are no UD queue pairs); they are checked and kept all the
// same.
#include <netinet/in.h>
#include <netinet/ip.h>

#include <array>
#include <cstring>

#include "verbs/convert.h"
#include "verbs/export.h"
#include "verbs/objects.h"

namespace mroce::verbs {
namespace {

constexpr size_t kGrhBytes = 40;
constexpr size_t kIpv4Bytes = 20;

int minus_one(int error) {
  errno = error;
  return -1;
}

void map_ipv4(const uint8_t* address, ibv_gid& out) {
  std::memset(out.raw, 0, sizeof out.raw);
  out.raw[10] = out.raw[11] = 0xff;
  std::memcpy(out.raw + 12, address, 4);
}

// The 40 bytes before a datagram hold an IPv6 header, or an IPv4 header in the last 20 (IBTA Annex
// A17, 4.5.2). The first nibble of bytes that are not written is undefined, hence the checksum decides.
bool holds_ipv4(const std::array<uint8_t, kGrhBytes>& bytes) {
  const uint8_t* header = bytes.data() + kGrhBytes - kIpv4Bytes;
  if (header[0] != 0x45) return false;
  uint32_t sum = 0;
  for (size_t i = 0; i < kIpv4Bytes; i += 2) sum += static_cast<uint32_t>(header[i] << 8 | header[i + 1]);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return sum == 0xffff;
}

// Index of `gid`, or -1.
int find_gid(Session& session, const ibv_gid& gid) {
  const auto& gids = session.gids();
  for (size_t i = 0; i < gids.size(); ++i) {
    if (std::memcmp(gids[i].gid.raw.data(), gid.raw, sizeof gid.raw) == 0) return static_cast<int>(i);
  }
  return -1;
}

}  // namespace

VERBS_EXPORT(ibv_create_ah);
ibv_ah* impl_ibv_create_ah(ibv_pd* pd, ibv_ah_attr* attr) {
  if (pd == nullptr || attr == nullptr) {
    errno = EINVAL;
    return nullptr;
  }
  Session& session = *context_of(*pd).session;
  int error = session.alive() ? 0 : ENODEV;
  if (error == 0) error = errno_of(check_ah_attr(*attr, session.gids().size()));
  if (error != 0) {
    errno = error;
    return nullptr;
  }
  Ah* ah = allocate<Ah>();
  if (ah == nullptr) return nullptr;
  ah->context = pd->context;
  ah->pd = pd;
  ah->attr = *attr;
  return ah;
}

VERBS_EXPORT(ibv_init_ah_from_wc);
int impl_ibv_init_ah_from_wc(ibv_context* context, uint8_t port, ibv_wc* wc, ibv_grh* grh, ibv_ah_attr* out) {
  Session& session = *context_of(context).session;
  if (!session.alive()) return minus_one(ENODEV);
  *out = ibv_ah_attr{};
  out->dlid = wc->slid;
  out->sl = wc->sl;
  out->src_path_bits = wc->dlid_path_bits;
  out->port_num = port;
  if ((wc->wc_flags & IBV_WC_GRH) == 0) return 0;

  static_assert(sizeof(ibv_grh) == kGrhBytes);
  std::array<uint8_t, kGrhBytes> bytes;
  std::memcpy(bytes.data(), grh, bytes.size());
  ibv_gid local{};  // the destination of what arrived
  out->is_global = 1;
  if (holds_ipv4(bytes)) {
    const uint8_t* header = bytes.data() + kGrhBytes - kIpv4Bytes;
    map_ipv4(header + 12, out->grh.dgid);
    map_ipv4(header + 16, local);
    out->grh.traffic_class = header[1];
    out->grh.hop_limit = header[8];
  } else if (bytes[0] >> 4 == 6) {
    out->grh.dgid = grh->sgid;
    local = grh->dgid;
    out->grh.traffic_class = static_cast<uint8_t>(bytes[0] << 4 | bytes[1] >> 4);
    out->grh.flow_label = static_cast<uint32_t>((bytes[1] & 0x0f) << 16 | bytes[2] << 8 | bytes[3]);
    out->grh.hop_limit = grh->hop_limit;
  } else {
    return minus_one(EPROTONOSUPPORT);
  }
  const int index = find_gid(session, local);
  if (index < 0) return minus_one(EINVAL);
  out->grh.sgid_index = static_cast<uint8_t>(index);
  return 0;
}

VERBS_EXPORT(ibv_create_ah_from_wc);
ibv_ah* impl_ibv_create_ah_from_wc(ibv_pd* pd, ibv_wc* wc, ibv_grh* grh, uint8_t port) {
  ibv_ah_attr attr;
  if (impl_ibv_init_ah_from_wc(pd->context, port, wc, grh, &attr) != 0) return nullptr;
  return impl_ibv_create_ah(pd, &attr);
}

VERBS_EXPORT(ibv_destroy_ah);
int impl_ibv_destroy_ah(ibv_ah* ah) {
  delete static_cast<Ah*>(ah);
  return 0;
}

}  // namespace mroce::verbs
