#pragma once

#include <string>

#include <gmock/gmock.h>

#include "core/base/error.hpp"

// `statement` must throw pipeline::Error with this code and text.
#define EXPECT_ERROR(statement, expected_code, matcher)     \
  try {                                                     \
    statement;                                              \
    ADD_FAILURE() << "no error from " #statement;           \
  } catch (const pipeline::Error& error) {                  \
    EXPECT_EQ(error.code(), expected_code) << error.what(); \
    EXPECT_THAT(std::string(error.what()), matcher);        \
  }
