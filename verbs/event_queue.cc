#include "verbs/event_queue.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>

namespace mroce::verbs {
namespace {

void add_one(int fd) {
  const uint64_t one = 1;
  // Fails only when the counter is at its maximum, and then the descriptor is readable anyway.
  [[maybe_unused]] const ssize_t written = ::write(fd, &one, sizeof one);
}

}  // namespace

EventQueue::~EventQueue() {
  if (fd_ >= 0) ::close(fd_);
  if (wake_fd_ >= 0) ::close(wake_fd_);
}

int EventQueue::open() {
  fd_ = ::eventfd(0, EFD_CLOEXEC);
  if (fd_ < 0) return errno;
  wake_fd_ = ::eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
  return wake_fd_ < 0 ? errno : 0;
}

void EventQueue::push(const Entry& entry) {
  std::lock_guard lock(mutex_);
  entries_.push_back(entry);
  add_one(fd_);
  if (waiting_ > 0) add_one(wake_fd_);
}

// The counter is above zero here, so that the read does not block.
void EventQueue::clear_if_empty() {
  if (!entries_.empty()) return;
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = ::read(fd_, &count, sizeof count);
}

bool EventQueue::try_pop(Entry& out) {
  if (entries_.empty()) return false;
  out = entries_.front();
  entries_.pop_front();
  clear_if_empty();
  if (out.fetched != nullptr) ++*out.fetched;
  return true;
}

int EventQueue::pop(Entry& out) {
  // Also undone when the thread is cancelled inside read().
  struct Waiting {
    EventQueue& queue;
    explicit Waiting(EventQueue& q) : queue(q) {}
    ~Waiting() {
      std::lock_guard lock(queue.mutex_);
      --queue.waiting_;
    }
  };
  for (;;) {
    {
      std::lock_guard lock(mutex_);
      if (try_pop(out)) return 0;
      const int flags = ::fcntl(fd_, F_GETFL);
      if (flags < 0) return errno;
      if ((flags & O_NONBLOCK) != 0) return EAGAIN;
      ++waiting_;
    }
    const Waiting waiting(*this);
    uint64_t token = 0;
    if (::read(wake_fd_, &token, sizeof token) < 0) return errno;
  }
}

uint32_t EventQueue::remove(const void* object, const uint32_t* fetched) {
  std::lock_guard lock(mutex_);
  const bool had_any = !entries_.empty();
  std::erase_if(entries_, [&](const Entry& entry) { return entry.object == object; });
  if (had_any) clear_if_empty();
  return *fetched;
}

}  // namespace mroce::verbs
