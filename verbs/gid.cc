// GIDs and the partition key. Every GID is of type RoCE v2: it is the IP address that packets carry.
#include <algorithm>
#include <cstring>

#include "verbs/export.h"
#include "verbs/objects.h"

namespace mroce::verbs {
namespace {

constexpr __be16 kDefaultPkey = 0xffff;  // full membership; the only partition

int gid_entry(ibv_context* context, uint32_t port, uint32_t index, ibv_gid_entry& out) {
  Session& session = *context_of(context).session;
  if (!session.alive()) return ENODEV;
  const auto& gids = session.gids();
  if (port != 1 || index >= gids.size()) return EINVAL;
  out = ibv_gid_entry{};
  std::memcpy(out.gid.raw, gids[index].gid.raw.data(), sizeof out.gid.raw);
  out.gid_index = index;
  out.port_num = 1;
  out.gid_type = IBV_GID_TYPE_ROCE_V2;
  out.ndev_ifindex = gids[index].ifindex;
  return 0;
}

int minus_one(int error) {
  errno = error;
  return -1;
}

}  // namespace

VERBS_EXPORT(ibv_query_gid);
int impl_ibv_query_gid(ibv_context* context, uint8_t port, int index, ibv_gid* gid) {
  ibv_gid_entry entry;
  const int error = index < 0 ? EINVAL : gid_entry(context, port, static_cast<uint32_t>(index), entry);
  if (error != 0) return minus_one(error);
  *gid = entry.gid;
  return 0;
}

VERBS_EXPORT(_ibv_query_gid_ex);
int impl__ibv_query_gid_ex(ibv_context* context, uint32_t port, uint32_t index, ibv_gid_entry* out,
                           uint32_t flags, size_t entry_size) {
  if (flags != 0) return EOPNOTSUPP;
  ibv_gid_entry entry;
  if (const int error = gid_entry(context, port, index, entry); error != 0) return error;
  std::memcpy(out, &entry, std::min(entry_size, sizeof entry));
  return 0;
}

VERBS_EXPORT(_ibv_query_gid_table);
ssize_t impl__ibv_query_gid_table(ibv_context* context, ibv_gid_entry* entries, size_t max_entries,
                                  uint32_t flags, size_t entry_size) {
  if (flags != 0) return -EOPNOTSUPP;
  Session& session = *context_of(context).session;
  if (!session.alive()) return -ENODEV;
  const size_t count = session.gids().size();
  if (count > max_entries) return -EINVAL;
  auto* bytes = reinterpret_cast<std::byte*>(entries);
  for (size_t index = 0; index < count; ++index) {
    ibv_gid_entry entry;
    if (const int error = gid_entry(context, 1, static_cast<uint32_t>(index), entry); error != 0)
      return -error;
    std::memcpy(bytes + index * entry_size, &entry, std::min(entry_size, sizeof entry));
  }
  return static_cast<ssize_t>(count);
}

// The answer is that of sysfs: 0 for InfiniBand and RoCE v1, 1 for RoCE v2.
VERBS_EXPORT(ibv_query_gid_type);
int impl_ibv_query_gid_type(ibv_context* context, uint8_t port, unsigned int index, int* type) {
  ibv_gid_entry entry;
  if (const int error = gid_entry(context, port, index, entry); error != 0) return minus_one(error);
  *type = 1;
  return 0;
}

VERBS_EXPORT(ibv_query_pkey);
int impl_ibv_query_pkey(ibv_context* context, uint8_t port, int index, __be16* pkey) {
  if (!context_of(context).session->alive()) return minus_one(ENODEV);
  if (port != 1 || index != 0) return minus_one(EINVAL);
  *pkey = kDefaultPkey;
  return 0;
}

VERBS_EXPORT(ibv_get_pkey_index);
int impl_ibv_get_pkey_index(ibv_context* context, uint8_t port, __be16 pkey) {
  if (!context_of(context).session->alive()) return minus_one(ENODEV);
  if (port != 1 || pkey != kDefaultPkey) return minus_one(EINVAL);
  return 0;
}

}  // namespace mroce::verbs
