// EventQueue: events behind a file descriptor, for completion channels and for asynchronous events.
//
// A program may poll or select on the descriptor, make it non-blocking, watch it edge-triggered, or simply
// block in ibv_get_cq_event(). The queue is in memory; the descriptor is an eventfd that only says whether it
// is empty: under the queue's mutex, "readable" and "not empty" are the same thing. Each push writes to the
// eventfd, so that an edge-triggered watcher sees every event.
//
// A thread that blocks waits on a second eventfd, by read(): that restarts after a signal exactly when the
// program asked for it (SA_RESTART), and pthread_cancel() ends it, both like a read from the kernel's verbs
// descriptor.
//
// When an object is destroyed, its events that nobody has fetched vanish, and the number that somebody did
// fetch is what the program must acknowledge.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>

namespace mroce::verbs {

class EventQueue {
 public:
  struct Entry {
    void* object = nullptr;       // a CQ, QP or SRQ; null for events of the port
    int type = 0;                 // ibv_event_type; unused in completion channels
    uint32_t* fetched = nullptr;  // counts fetched events of `object`; guarded by this queue's mutex
  };

  EventQueue() = default;
  ~EventQueue();
  EventQueue(const EventQueue&) = delete;
  EventQueue& operator=(const EventQueue&) = delete;

  // Creates the descriptors: 0 or an errno.
  int open();
  int fd() const { return fd_; }

  void push(const Entry& entry);
  // Takes the oldest event. Blocks while there is none, unless the descriptor is non-blocking (EAGAIN). 0 or
  // an errno.
  int pop(Entry& out);
  // Forgets the events of `object` that nobody has fetched; returns `*fetched`.
  uint32_t remove(const void* object, const uint32_t* fetched);

 private:
  bool try_pop(Entry& out);
  void clear_if_empty();

  std::mutex mutex_;
  std::deque<Entry> entries_;
  uint32_t waiting_ = 0;
  int fd_ = -1;
  int wake_fd_ = -1;  // a semaphore: one token for each push that found somebody waiting
};

}  // namespace mroce::verbs
