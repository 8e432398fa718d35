// Errors are values. One table: name, errno, sentence.
#pragma once

#include <cerrno>
#include <cstdint>
#include <string_view>
#include <tl/expected.hpp>

namespace mroce {

// X(name, errno, sentence)
#define MROCE_ERRORS(X)                                                                   \
  X(kInvalidArgument, EINVAL, "an argument is out of range or not allowed in this state") \
  X(kNotFound, EINVAL, "no such object")                                                  \
  X(kBusy, EBUSY, "the object is still in use")                                           \
  X(kNoMemory, ENOMEM, "a limit or the memory is exhausted")                              \
  X(kNotSupported, EOPNOTSUPP, "this operation is not implemented")                       \
  X(kQueueFull, ENOMEM, "the work queue is full")                                         \
  X(kBadState, EINVAL, "the queue pair is in the wrong state for this")                   \
  X(kNoDevice, ENODEV, "the endpoint is closed")                                          \
  X(kNetwork, EIO, "the operating system refused a network operation")

enum class Errc : uint8_t {
#define MROCE_ERROR_ENUM(name, number, sentence) name,
  MROCE_ERRORS(MROCE_ERROR_ENUM)
#undef MROCE_ERROR_ENUM
};

// The errno that the verbs API reports for `error`.
constexpr int errno_of(Errc error) {
  switch (error) {
#define MROCE_ERROR_ERRNO(name, number, sentence) \
  case Errc::name:                                \
    return number;
    MROCE_ERRORS(MROCE_ERROR_ERRNO)
#undef MROCE_ERROR_ERRNO
  }
  return EINVAL;
}

constexpr std::string_view sentence_of(Errc error) {
  switch (error) {
#define MROCE_ERROR_SENTENCE(name, number, sentence) \
  case Errc::name:                                   \
    return sentence;
    MROCE_ERRORS(MROCE_ERROR_SENTENCE)
#undef MROCE_ERROR_SENTENCE
  }
  return "unknown error";
}

template <class T>
using Result = tl::expected<T, Errc>;
using Status = tl::expected<void, Errc>;

inline tl::unexpected<Errc> fail(Errc error) {
  return tl::unexpected<Errc>(error);
}

}  // namespace mroce
