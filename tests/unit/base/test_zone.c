/* Time zones against Python's zoneinfo, which reads the same tzdata with its own code: from 1900 to 2052, at the
 * changes and around them, and far beyond; damaged files; and names of no zone. */
#include "lib/unit.h"

#include "base/zone.h"

#include <stdio.h>
#include <stdlib.h>

/* Every zone of the system: a line `name t offset t offset ...`, with t at changes, next to them, and far from them. Of a name
 * whose zone had another name before, times far off alone. */
static const char script[] =
    "import zoneinfo, datetime, random, os\n"
    "random.seed(7)\n"
    "seen = set()\n"
    "def offset(z, t):\n"
    "    of = datetime.datetime.fromtimestamp(t, z).utcoffset()\n"
    "    return of.days * 86400 + of.seconds\n"
    "for name in sorted(zoneinfo.available_timezones()):\n"
    "    if not name[0].isupper(): continue\n"
    "    paths = [os.path.join(at, name) for at in zoneinfo.TZPATH]\n"
    "    file = next(open(path, 'rb').read() for path in paths if os.path.exists(path))\n"
    "    z, asked, t = zoneinfo.ZoneInfo(name), [], 2600000000 if file in seen else -2208988800\n"
    "    seen.add(file)\n"
    "    now = offset(z, t)\n"
    "    while t < 2600000000:\n"
    "        after = t + random.randrange(40, 110) * 86400\n"
    "        then = offset(z, after)\n"
    "        if now != then:\n"
    "            low, high = t, after\n"
    "            while high - low > 1:\n"
    "                middle = (low + high) // 2\n"
    "                low, high = (middle, high) if offset(z, middle) == now else (low, middle)\n"
    "            asked += [low, high, high + 3599]\n"
    "        asked.append(t)\n"
    "        t, now = after, then\n"
    "    asked += [random.randrange(2600000000, 100000000000) for _ in range(40)]\n"
    "    print(name, *(n for t in asked for n in (t, offset(z, t))))\n";

static FILE *python(void)
{
    char path[] = "/tmp/test_zone_XXXXXX";
    char command[64];
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    FILE *to = fdopen(fd, "w");
    fputs(script, to);
    fclose(to);
    snprintf(command, sizeof command, "python3 %s; rm %s", path, path);
    FILE *from = popen(command, "r"); /* NOLINT: of this test's own text */
    assert_non_null(from);
    return from;
}

static unsigned long offsets_compare(const struct zone *z, const char *numbers)
{
    unsigned long n = 0;
    for (char *next; *numbers == ' '; n++) {
        int64_t t = strtoll(numbers, &next, 10), from, until;
        long wanted = strtol(next, &next, 10);
        int32_t got = zone_offset(z, t, &from, &until);
        if (got != wanted) fail_msg("%s at %lld: %d, not %ld", z->name, (long long)t, got, wanted);
        if (from > t || until <= t) fail_msg("%s at %lld: not between", z->name, (long long)t);
        assert_int_equal(zone_offset(z, from == INT64_MIN ? t : from, NULL, NULL), got);
        assert_int_equal(zone_offset(z, until == INT64_MAX ? t : until - 1, NULL, NULL), got);
        numbers = next;
    }
    return n;
}

UNIT(as_python_says)
{
    FILE *from = python();
    char *line = NULL;
    size_t size = 0, zones = 0;
    unsigned long compared = 0;
    while (getline(&line, &size, from) > 0) {
        struct zone z;
        struct error e;
        size_t n = strcspn(line, " ");
        if (zone_load(slice_of(line, n), &z, &e) != ERR_NONE) fail_msg("%s", e.text);
        compared += offsets_compare(&z, line + n);
        zone_free(&z);
        zones++;
    }
    free(line);
    assert_int_equal(pclose(from), 0);
    assert_true(zones > 400 && compared > 300 * 1000);
    print_message("%zu zones, %lu times\n", zones, compared);
}

UNIT(names)
{
    static const char *const wrong[] = {"",
                                        "europe/Berlin",
                                        "Europe/Berlinx",
                                        "/Europe/Berlin",
                                        "Europe/",
                                        "Europe",
                                        "../zoneinfo/UTC",
                                        "Europe/../UTC",
                                        "Europe//Berlin",
                                        "localtime",
                                        "right/UTC",
                                        "posix/UTC",
                                        "tzdata.zi",
                                        "UTC\n",
                                        "Europe/Berlin.",
                                        "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"};
    struct zone z;
    struct error e;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        if (zone_load(slice_str(wrong[i]), &z, &e) == ERR_NONE) fail_msg("taken: %s", wrong[i]);
        assert_non_null(strstr(e.text, "expected a name such as Europe/Berlin"));
        assert_non_null(strstr(e.text, "(package tzdata; old names as US/Eastern: tzdata-legacy)"));
    }
    assert_int_equal(zone_load(SLICE("UTC"), &z, &e), ERR_NONE);
    assert_int_equal(zone_offset(&z, 1700000000, NULL, NULL), 0);
    assert_string_equal(z.name, "UTC");
    zone_free(&z);
}

static size_t read_whole(const char *path, char *out, size_t size)
{
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    size_t n = fread(out, 1, size, f);
    fclose(f);
    return n;
}

/* Each prefix is refused, and no changed byte reads beyond the end (the sanitizers look). Of a short file with a rule at its end:
 * what is read grows with the square of its length. */
UNIT(damaged_files)
{
    static char whole[65536], damaged[65536];
    struct zone z;
    size_t n = read_whole(ZONE_DIRECTORY "/Pacific/Norfolk", whole, sizeof whole);
    assert_true(zone_read(slice_of(whole, n), &z));
    zone_free(&z);
    for (size_t i = 0; i < n; i++) {
        char *exact = malloc(i + 1);
        memcpy(exact, whole, i);
        assert_false(zone_read(slice_of(exact, i), &z));
        free(exact);
        const int flips[] = {0xff, 1 << i % 8};
        for (size_t f = 0; f < 2; f++) {
            memcpy(damaged, whole, n);
            damaged[i] = (char)(damaged[i] ^ flips[f]);
            if (!zone_read(slice_of(damaged, n), &z)) continue;
            for (int64_t t = -4000000000; t < 8000000000; t += 450000000)
                (void)zone_offset(&z, t, NULL, NULL);
            zone_free(&z);
        }
    }
}
