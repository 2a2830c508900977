// The SDK is compiled into each plugin, in a namespace with hidden symbols, so that plugins built with
// different SDK versions can be loaded together.
#pragma once

#define PIPELINE_SDK_BEGIN \
  namespace pipeline {     \
  inline namespace [[gnu::visibility("hidden")]] sdk_v1 {
#define PIPELINE_SDK_END \
  }                      \
  }
