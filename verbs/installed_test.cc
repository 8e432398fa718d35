// Our library beside the installed libibverbs: the words and numbers that programs print and scripts look
// for.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <cstring>
#include <memory>

#ifndef MROCE_INSTALLED_IBVERBS
#define MROCE_INSTALLED_IBVERBS ""
#endif

namespace {

class InstalledTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::strlen(MROCE_INSTALLED_IBVERBS) != 0) {
      handle_.reset(dlopen(MROCE_INSTALLED_IBVERBS, RTLD_NOW | RTLD_LOCAL));
    }
    if (handle_ == nullptr) GTEST_SKIP() << "libibverbs is not installed";
  }
  template <class F>
  F* theirs(F*, const char* name) {
    return reinterpret_cast<F*>(dlsym(handle_.get(), name));
  }
  struct Close {
    void operator()(void* handle) const { dlclose(handle); }
  };
  std::unique_ptr<void, Close> handle_;
};

#define EXPECT_SAME_STRINGS(function, type, first, last)                                \
  do {                                                                                  \
    auto* other = theirs(&function, #function);                                         \
    ASSERT_NE(other, nullptr);                                                          \
    ASSERT_NE(other, &function);                                                        \
    for (int value = first; value <= last; ++value) {                                   \
      EXPECT_STREQ(function(static_cast<type>(value)), other(static_cast<type>(value))) \
          << #function << value;                                                        \
    }                                                                                   \
  } while (false)

TEST_F(InstalledTest, it_says_the_same_words) {
  EXPECT_SAME_STRINGS(ibv_wc_status_str, ibv_wc_status, 0, 31);
  EXPECT_SAME_STRINGS(ibv_event_type_str, ibv_event_type, 0, 31);
  EXPECT_SAME_STRINGS(ibv_port_state_str, ibv_port_state, 0, 7);
  EXPECT_SAME_STRINGS(ibv_node_type_str, ibv_node_type, -1, 7);
}

TEST_F(InstalledTest, it_converts_rates_alike) {
  auto* mbps = theirs(&ibv_rate_to_mbps, "ibv_rate_to_mbps");
  auto* multiple = theirs(&ibv_rate_to_mult, "ibv_rate_to_mult");
  auto* from_mbps = theirs(&mbps_to_ibv_rate, "mbps_to_ibv_rate");
  auto* from_multiple = theirs(&mult_to_ibv_rate, "mult_to_ibv_rate");
  ASSERT_TRUE(mbps != nullptr && multiple != nullptr && from_mbps != nullptr && from_multiple != nullptr);
  for (int value = 0; value < 32; ++value) {
    const auto rate = static_cast<ibv_rate>(value);
    EXPECT_EQ(ibv_rate_to_mbps(rate), mbps(rate)) << value;
    EXPECT_EQ(ibv_rate_to_mult(rate), multiple(rate)) << value;
    EXPECT_EQ(mbps_to_ibv_rate(mbps(rate)), from_mbps(mbps(rate))) << value;
  }
  for (int value = -2; value < 500; ++value)
    EXPECT_EQ(mult_to_ibv_rate(value), from_multiple(value)) << value;
}

}  // namespace
