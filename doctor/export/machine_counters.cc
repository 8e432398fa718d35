#include "doctor/export/machine_counters.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "doctor/text.h"

namespace mroce::doctor {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxNames = 1024;

// Sysfs gives a file in one read, and may fail in it: firmware that does not answer.
std::string first_bytes(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return "";
  char bytes[4096];
  const ssize_t got = ::read(fd, bytes, sizeof bytes);
  ::close(fd);
  return got > 0 ? std::string(trim({bytes, static_cast<size_t>(got)})) : "";
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> out;
  std::error_code error;
  for (auto at = fs::directory_iterator(folder, error);
       !error && at != fs::directory_iterator() && out.size() < kMaxNames; at.increment(error))
    out.push_back(at->path().filename().string());
  std::sort(out.begin(), out.end());
  return out;
}

struct Listing {
  const std::string& root;
  std::string text;
  void file(const std::string& path) {
    const std::string value = first_bytes(root + path);
    if (!value.empty() && !contains(value, "\n")) text += path + ":" + value + "\n";
  }
  void folder(const std::string& path) {
    for (const std::string& name : names_in(root + path)) file(path + "/" + name);
  }
};

void add_source(Snapshot& snapshot, const std::string& folder, Listing& listing) {
  if (!listing.text.empty())
    snapshot.sources.push_back({"grep -r . " + folder, "", "", std::move(listing.text), ""});
}

}  // namespace

Bundle read_machine_counters(const std::string& root) {
  Bundle out;
  out.host = first_bytes(root + "/proc/sys/kernel/hostname");
  Snapshot& snapshot = out.snapshots.emplace_back();
  snapshot.phase = Phase::kSample;
  snapshot.time_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(
                         std::chrono::system_clock::now().time_since_epoch())
                         .count();
  for (const std::string& device : names_in(root + "/sys/class/infiniband")) {
    const std::string folder = "/sys/class/infiniband/" + device;
    Listing listing{root, ""};
    listing.folder(folder + "/hw_counters");
    listing.file(folder + "/fw_ver");
    for (const std::string& port : names_in(root + folder + "/ports")) {
      const std::string at = folder + "/ports/" + port;
      for (const char* file : {"/state", "/rate", "/link_layer", "/gid_attrs/ndevs/0"})
        listing.file(at + file);
      listing.folder(at + "/hw_counters");
      listing.folder(at + "/counters");
    }
    add_source(snapshot, folder, listing);
  }
  for (const std::string& netdev : names_in(root + "/sys/class/net")) {
    if (netdev == "lo") continue;
    const std::string folder = "/sys/class/net/" + netdev;
    Listing listing{root, ""};
    for (const char* file : {"/operstate", "/speed", "/carrier_changes", "/carrier_down_count"})
      listing.file(folder + file);
    listing.folder(folder + "/statistics");
    add_source(snapshot, folder, listing);
  }
  return out;
}

}  // namespace mroce::doctor
