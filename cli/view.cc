#include "cli/view.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <string_view>

namespace mroce::cli {
namespace {

using Status = tl::expected<void, std::string>;

tl::unexpected<std::string> because(std::string_view what) {
  const int error = errno;
  return tl::unexpected<std::string>(fmt::format("{}: {}", what, std::strerror(error)));
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

Status write_file(const std::string& path, std::string_view text) {
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0444));
  if (file.get() < 0) return because("cannot open " + path);
  if (::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return because("cannot write " + path);
  }
  return {};
}

// Root only needs its own mount table. Everybody else needs a user namespace around it, in which one's ids
// stay.
Status enter_namespaces() {
  if (::unshare(CLONE_NEWNS) == 0) return {};
  if (errno != EPERM || ::geteuid() == 0) return because("no private mount namespace");
  const uid_t uid = ::geteuid();
  const gid_t gid = ::getegid();
  if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return because("no user namespace");
  if (auto done = write_file("/proc/self/setgroups", "deny"); !done) return done;
  if (auto done = write_file("/proc/self/uid_map", fmt::format("{} {} 1", uid, uid)); !done) return done;
  return write_file("/proc/self/gid_map", fmt::format("{} {} 1", gid, gid));
}

// Slave, not private: what the machine mounts later still shows up, and nothing of ours goes the other way.
// In a chroot "/" is no mount of its own; there it is done for the mounts that hold the directories to be
// covered.
Status detach_mounts() {
  const auto detach = [](const char* path) {
    return ::mount(nullptr, path, nullptr, MS_REC | MS_SLAVE, nullptr) == 0;
  };
  if (detach("/")) return {};
  if (errno == EINVAL && (detach("/sys/class") || detach("/sys")) && detach("/dev")) return {};
  return because("cannot detach the mounts");
}

// Makes one entry of the covered directory reachable again under its old name.
Status uncover(int old_dir, const std::string& directory, const std::string& name) {
  const std::string target = directory + "/" + name;
  struct stat info {};
  if (::fstatat(old_dir, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
    return errno == ENOENT ? Status{} : because("cannot look at " + target);
  }
  if (S_ISLNK(info.st_mode)) {
    std::array<char, 4096> text{};
    const ssize_t length = ::readlinkat(old_dir, name.c_str(), text.data(), text.size() - 1);
    if (length < 0 || ::symlink(text.data(), target.c_str()) != 0) return because("cannot link " + target);
    return {};
  }
  const int made =
      S_ISDIR(info.st_mode) ? ::mkdir(target.c_str(), 0755) : ::mknod(target.c_str(), S_IFREG | 0644, 0);
  if (made != 0) return because("cannot make " + target);
  const std::string source = fmt::format("/proc/self/fd/{}/{}", old_dir, name);
  if (::mount(source.c_str(), target.c_str(), nullptr, MS_BIND | MS_REC, nullptr) != 0 && errno != ENOENT) {
    return because("cannot bind " + target);
  }
  return {};
}

std::vector<std::string> names_in(int directory) {
  std::vector<std::string> names;
  const int copy = ::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(copy < 0 ? nullptr : ::fdopendir(copy), ::closedir);
  if (!listing) return names;
  while (const dirent* entry = ::readdir(listing.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  return names;
}

// Covers `directory` by a tmpfs that holds all that was in it, except for the names in `ours`.
Status cover(const std::string& directory, int old_dir, std::span<const std::string_view> ours) {
  const auto names = names_in(old_dir);
  if (::mount("mroce", directory.c_str(), "tmpfs", MS_NOSUID | MS_NOEXEC, "mode=755,size=4m") != 0) {
    return because("cannot mount a tmpfs on " + directory);
  }
  for (const auto& name : names) {
    if (std::find(ours.begin(), ours.end(), name) != ours.end()) continue;
    if (auto done = uncover(old_dir, directory, name); !done) return done;
  }
  return {};
}

// A node that behaves as /dev/null. Programs only look whether there is a character device that they may
// open; the verbs library itself never opens it. Inside a user namespace nobody may make devices, so
// /dev/null is bound there.
Status make_null_device(int old_dev, const std::string& path) {
  if (::mknod(path.c_str(), S_IFCHR | 0666, makedev(1, 3)) == 0) {
    return ::chmod(path.c_str(), 0666) == 0 ? Status{} : because("cannot chmod " + path);
  }
  if (::mknod(path.c_str(), S_IFREG | 0666, 0) != 0) return because("cannot make " + path);
  const std::string source = fmt::format("/proc/self/fd/{}/null", old_dev);
  if (::mount(source.c_str(), path.c_str(), nullptr, MS_BIND, nullptr) != 0)
    return because("cannot bind " + path);
  return {};
}

// There is no rdma_cm among them: librdmacm would open it, and a null device swallows its commands and
// answers none. It then takes what stands in its buffers for the answers and waits for a lock that it holds
// itself. Without the node, rdma_create_event_channel() fails.
Status cover_dev(const DeviceView& view) {
  static constexpr std::array<std::string_view, 1> kOurs{"infiniband"};
  const Descriptor old_dev(::open("/dev", O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (old_dev.get() < 0) return because("cannot open /dev");
  if (auto done = cover("/dev", old_dev.get(), kOurs); !done) return done;
  if (::mkdir("/dev/infiniband", 0755) != 0) return because("cannot make /dev/infiniband");
  for (const std::string& name : {std::string("uverbs0"), view.device}) {
    if (auto done = make_null_device(old_dev.get(), "/dev/infiniband/" + name); !done) return done;
  }
  return {};
}

struct SysfsFile {
  std::string path;  // below /sys/class
  std::string text;
};

std::vector<SysfsFile> sysfs_files(const DeviceView& view) {
  const std::string device = "infiniband/" + view.device + "/";
  const std::string port = device + "ports/1/";
  const std::string verbs = "infiniband_verbs/uverbs0/";
  std::vector<SysfsFile> files{
      {device + "node_type", "1: CA"},
      {device + "node_desc", view.device},
      {device + "node_guid", view.node_guid},
      {device + "sys_image_guid", view.node_guid},
      {device + "fw_ver", view.firmware},
      {device + "hca_type", "mroce"},
      {port + "state", "4: ACTIVE"},
      {port + "phys_state", "5: LinkUp"},
      {port + "link_layer", "Ethernet"},
      {port + "rate", "10 Gb/sec (4X SDR)"},
      {port + "lid", "0x0"},
      {port + "lid_mask_count", "0"},
      {port + "sm_lid", "0x0"},
      {port + "sm_sl", "0"},
      {port + "cap_mask", "0x00010000"},
      {port + "pkeys/0", "0xffff"},
      {verbs + "ibdev", view.device},
      {verbs + "dev", "231:192"},
      {verbs + "abi_version", "1"},
      {"infiniband_verbs/abi_version", "6"},
  };
  for (size_t i = 0; i < view.gids.size(); ++i) {
    const std::string index = std::to_string(i);
    files.push_back({port + "gids/" + index, view.gids[i].text});
    files.push_back({port + "gid_attrs/types/" + index, "RoCE v2"});
    files.push_back({port + "gid_attrs/ndevs/" + index, view.gids[i].interface});
  }
  return files;
}

Status cover_sys_class(const DeviceView& view) {
  static constexpr std::array<std::string_view, 2> kOurs{"infiniband", "infiniband_verbs"};
  const Descriptor old_class(::open("/sys/class", O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (old_class.get() < 0) return because("cannot open /sys/class");
  if (auto done = cover("/sys/class", old_class.get(), kOurs); !done) return done;
  for (const SysfsFile& file : sysfs_files(view)) {
    const std::filesystem::path path = std::filesystem::path("/sys/class") / file.path;
    std::error_code error;
    std::filesystem::create_directories(path.parent_path(), error);
    if (error) return tl::unexpected<std::string>("cannot make " + path.parent_path().string());
    if (auto done = write_file(path, file.text + "\n"); !done) return done;
  }
  return {};
}

}  // namespace

Status enter_view(const DeviceView& view) {
  const mode_t old_mask = ::umask(022);
  if (auto done = enter_namespaces(); !done) return done;
  if (auto done = detach_mounts(); !done) return done;
  if (auto done = cover_sys_class(view); !done) return done;
  if (auto done = cover_dev(view); !done) return done;
  ::umask(old_mask);
  return {};
}

}  // namespace mroce::cli
