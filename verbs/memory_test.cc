#include "verbs/memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>

#include "verbs/test_mapping.h"

namespace mroce::verbs {
namespace {

bool kernel_populates() {
  return ::madvise(nullptr, 0, MADV_POPULATE_WRITE) == 0;
}

bool resident(const Mapping& memory, size_t offset) {
  unsigned char flags = 0;
  EXPECT_EQ(::mincore(memory.at(offset), Mapping::kPage, &flags), 0);
  return (flags & 1) != 0;
}

TEST(MemoryTest, all_that_the_range_touches_must_be_mapped) {
  const size_t page = Mapping::kPage;
  const Mapping memory(4, PROT_READ | PROT_WRITE);
  EXPECT_EQ(check_memory(memory.at(0), memory.bytes(), true), 0);
  ASSERT_EQ(::munmap(memory.at(2 * page), page), 0);
  for (const bool writable : {false, true}) {
    EXPECT_EQ(check_memory(memory.at(0), memory.bytes(), writable), EFAULT);
    EXPECT_EQ(check_memory(memory.at(0), 2 * page, writable), 0);
    EXPECT_EQ(check_memory(memory.at(1), 2 * page - 1, writable), 0);
    EXPECT_EQ(check_memory(memory.at(1), 2 * page, writable), EFAULT) << "its last byte is missing";
    EXPECT_EQ(check_memory(memory.at(3 * page - 1), 2, writable), EFAULT) << "its first byte is missing";
    EXPECT_EQ(check_memory(memory.at(3 * page), 1, writable), 0);
  }
}

TEST(MemoryTest, the_permission_of_every_page_counts) {
  if (!kernel_populates()) GTEST_SKIP() << "the kernel does not know MADV_POPULATE_WRITE";
  const size_t page = Mapping::kPage;
  const Mapping memory(3, PROT_READ | PROT_WRITE);
  ASSERT_EQ(::mprotect(memory.at(page), page, PROT_READ), 0);
  EXPECT_EQ(check_memory(memory.at(0), memory.bytes(), false), 0);
  EXPECT_EQ(check_memory(memory.at(0), memory.bytes(), true), EFAULT);
  EXPECT_EQ(check_memory(memory.at(page - 8), 8, true), 0);
  EXPECT_EQ(check_memory(memory.at(page - 8), 9, true), EFAULT);
  ASSERT_EQ(::mprotect(memory.at(page), page, PROT_NONE), 0);
  EXPECT_EQ(check_memory(memory.at(0), memory.bytes(), false), EFAULT);
}

TEST(MemoryTest, what_is_checked_is_there_afterwards) {
  if (!kernel_populates()) GTEST_SKIP() << "the kernel does not know MADV_POPULATE_WRITE";
  const Mapping memory(3, PROT_READ | PROT_WRITE);
  ASSERT_FALSE(resident(memory, Mapping::kPage));
  ASSERT_EQ(check_memory(memory.at(Mapping::kPage), 1, true), 0);
  EXPECT_TRUE(resident(memory, Mapping::kPage));
  EXPECT_FALSE(resident(memory, 2 * Mapping::kPage)) << "more than the range";
}

// Touching such a page is not a segmentation fault but a bus error.
TEST(MemoryTest, pages_behind_the_end_of_a_file_do_not_count_as_mapped) {
  if (!kernel_populates()) GTEST_SKIP() << "the kernel does not know MADV_POPULATE_WRITE";
  std::FILE* file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  const size_t page = Mapping::kPage;
  ASSERT_EQ(::ftruncate(fileno(file), static_cast<off_t>(page)), 0);
  void* at = ::mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
  ASSERT_NE(at, MAP_FAILED);
  for (const bool writable : {false, true}) {
    EXPECT_EQ(check_memory(at, page, writable), 0);
    EXPECT_EQ(check_memory(at, 2 * page, writable), EFAULT);
  }
  ::munmap(at, 2 * page);
  std::fclose(file);
}

TEST(MemoryTest, a_range_around_the_end_of_the_address_space_is_none) {
  EXPECT_EQ(check_memory(nullptr, SIZE_MAX, true), EINVAL);
  EXPECT_EQ(check_memory(reinterpret_cast<void*>(UINTPTR_MAX - 99), 200, true), EINVAL);
}

TEST(MemoryTest, a_check_that_fails_leaves_errno_to_its_caller) {
  errno = 4711;
  EXPECT_EQ(check_memory(reinterpret_cast<void*>(0x1000), 1, true), EFAULT);
  EXPECT_EQ(errno, 4711);
}

}  // namespace
}  // namespace mroce::verbs
