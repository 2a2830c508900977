/* Option schemas, one for each macro; all but ZOO_OPTION_REQUIRED contradict themselves. */
#ifndef PIPELINE_TESTS_ZOO_OPTIONS_H
#define PIPELINE_TESTS_ZOO_OPTIONS_H

#define OPTION(type, flags, key, value, choices, choice_count, minimum)                                \
  {                                                                                                    \
    sizeof(pl_option), type, flags, choice_count, STR(key), STR(value), STR(""), STR("help"), choices, \
        minimum, 0                                                                                     \
  }

#if defined(ZOO_OPTION_CHOICE)
static const pl_str zoo_choices[] = {STR("relu"), STR("gelu")};
#endif

#if defined(ZOO_OPTION_KEY)
#define ZOO_OPTIONS OPTION(PL_OPTION_INT, 0, "Model", "1", NULL, 0, 0)
#elif defined(ZOO_OPTION_TYPE)
#define ZOO_OPTIONS OPTION(77, 0, "size", "1", NULL, 0, 0)
#elif defined(ZOO_OPTION_FLAGS)
#define ZOO_OPTIONS OPTION(PL_OPTION_INT, 4096, "size", "1", NULL, 0, 0)
#elif defined(ZOO_OPTION_NO_DEFAULT)
#define ZOO_OPTIONS OPTION(PL_OPTION_INT, 0, "size", "", NULL, 0, 0)
#elif defined(ZOO_OPTION_REQUIRED)
#define ZOO_OPTIONS OPTION(PL_OPTION_INT, PL_OPTION_REQUIRED, "size", "", NULL, 0, 0)
#elif defined(ZOO_OPTION_TWO_MINDS)
#define ZOO_OPTIONS OPTION(PL_OPTION_INT, PL_OPTION_REQUIRED, "size", "1", NULL, 0, 0)
#elif defined(ZOO_OPTION_NOT_TOML)
#define ZOO_OPTIONS OPTION(PL_OPTION_STRING, 0, "act", "gelu", NULL, 0, 0)
#elif defined(ZOO_OPTION_WRONG_TYPE)
#define ZOO_OPTIONS OPTION(PL_OPTION_INT, 0, "size", "1.5", NULL, 0, 0)
#elif defined(ZOO_OPTION_RANGE)
#define ZOO_OPTIONS OPTION(PL_OPTION_INT, PL_OPTION_HAS_MINIMUM, "size", "1", NULL, 0, 2)
#elif defined(ZOO_OPTION_CHOICE)
#define ZOO_OPTIONS OPTION(PL_OPTION_STRING, 0, "act", "\"tanh\"", zoo_choices, 2, 0)
#elif defined(ZOO_OPTION_TWICE)
#define ZOO_OPTIONS \
  OPTION(PL_OPTION_INT, 0, "a", "1", NULL, 0, 0), OPTION(PL_OPTION_INT, 0, "a", "1", NULL, 0, 0)
#elif defined(ZOO_OPTION_AND_TABLE)
#define ZOO_OPTIONS \
  OPTION(PL_OPTION_INT, 0, "a", "1", NULL, 0, 0), OPTION(PL_OPTION_INT, 0, "a.b", "1", NULL, 0, 0)
#endif

#ifdef ZOO_OPTIONS
static const pl_option kOptions[] = {ZOO_OPTIONS};
#define ZOO_OPTION_COUNT (sizeof kOptions / sizeof *kOptions)
#else
#define kOptions NULL
#define ZOO_OPTION_COUNT 0
#endif

#endif
