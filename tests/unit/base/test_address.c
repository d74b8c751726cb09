/* Addresses to listen on. The test has its own groups: one has so many members that its entry exceeds any first buffer. */
#include "lib/unit.h"

#include "base/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#define LARGE_BYTES 300000

/* In libc's place. */
int getgrnam_r(const char *name, struct group *entry, char *room, size_t size, struct group **found)
{
    *found = NULL;
    if (strcmp(name, "broken") == 0) return EIO;
    if (strcmp(name, "shop") != 0) return 0;
    if (size < LARGE_BYTES) return ERANGE;
    memset(room, 'x', LARGE_BYTES);
    *entry = (struct group){.gr_gid = getegid()};
    *found = entry;
    return 0;
}

static bool kernel_is_old;

/* Likewise. */
int setsockopt(int fd, int level, int option, const void *value, socklen_t size)
{
    if (kernel_is_old && option == SO_REUSEPORT) {
        errno = ENOPROTOOPT;
        return -1;
    }
    return (int)syscall(SYS_setsockopt, fd, level, option, value, size);
}

UNIT(a_kernel_without_it)
{
    struct error e;
    char text[] = "tcp://127.0.0.1:0", host[] = "127.0.0.1";
    struct address a = {.text = text, .host = host, .shared = true};
    kernel_is_old = true;
    assert_int_equal(address_listen(&a, 1, &e), -1);
    kernel_is_old = false;
    assert_non_null(strstr(e.text, "take ?reuseport=1 away"));
}

UNIT(tcp_is_an_ip_and_a_port)
{
    static const struct {
        const char *text, *host;
        int port;
        bool tls;
    } all[] = {
        {"tcp://127.0.0.1:7370", "127.0.0.1", 7370, false},
        {"tls://0.0.0.0:7380", "0.0.0.0", 7380, true},
        {"tcp://[::1]:65535", "::1", 65535, false},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct address a;
        assert_null(address_parse(slice_str(all[i].text), &a));
        assert_string_equal(a.text, all[i].text);
        assert_string_equal(a.host, all[i].host);
        assert_int_equal(a.port, all[i].port);
        assert_int_equal(a.tls, all[i].tls);
        assert_null(a.path);
        address_free(&a);
    }
}

static bool may_come(const char *url, const char *peer)
{
    struct address a;
    struct sockaddr_in6 six = {.sin6_family = AF_INET6};
    struct sockaddr_in four = {.sin_family = AF_INET};
    bool is_six = strchr(peer, ':') != NULL;
    assert_null(address_parse(slice_str(url), &a));
    assert_int_equal(
        inet_pton(is_six ? AF_INET6 : AF_INET, peer, is_six ? (void *)&six.sin6_addr : &four.sin_addr), 1);
    bool good = networks_have(&a.proxies, is_six ? (struct sockaddr *)&six : (struct sockaddr *)&four);
    address_free(&a);
    return good;
}

UNIT(proxies_come_from_networks)
{
    static const char two[] = "tcp://[::]:1?proxy=on&from=10.0.0.0/9,2001:db8::/33";
    assert_true(may_come(two, "10.127.255.255"));
    assert_true(may_come(two, "::ffff:10.0.0.1")); /* by a socket of IPv6 */
    assert_true(may_come(two, "2001:db8:7fff::1"));
    assert_false(may_come(two, "10.128.0.0"));
    assert_false(may_come(two, "2001:db8:8000::"));
    assert_false(may_come(two, "127.0.0.1"));
    assert_true(may_come("tcp://0.0.0.0:1?proxy=on", "127.8.9.10"));
    assert_true(may_come("tls://0.0.0.0:1?proxy=on", "::1"));
    assert_false(may_come("tcp://0.0.0.0:1?proxy=on", "::2"));
    assert_true(may_come("tcp://0.0.0.0:1?proxy=on&from=0.0.0.0/0", "192.0.2.1"));
    assert_false(may_come("tcp://0.0.0.0:1?proxy=on&from=0.0.0.0/0", "::1"));
    assert_false(may_come("tcp://0.0.0.0:1", "127.0.0.1")); /* it is no such address */
}

static bool shared(const char *url, bool proxied)
{
    struct address a;
    if (address_parse(slice_str(url), &a) != NULL) return false;
    bool is = a.shared && (a.proxies.n > 0) == proxied;
    address_free(&a);
    return is;
}

UNIT(a_port_may_be_shared)
{
    assert_true(shared("tcp://0.0.0.0:1?reuseport=1", false));
    assert_true(shared("tls://[::]:1?proxy=on&from=::1&reuseport=1", true));
    assert_true(shared("tcp://0.0.0.0:1?reuseport=1&proxy=on&from=::1", true));
    assert_false(shared("tcp://0.0.0.0:1?proxy=on", true));
    assert_false(shared("tcp://0.0.0.0:1?reuseport=0", false));
    assert_false(shared("tcp://0.0.0.0:1?reuseport=1&", false));
    assert_false(shared("tcp://0.0.0.0:1?from=::1&reuseport=1", true));
    assert_false(shared("unix:///s?reuseport=1", false));
}

/* The test of the configuration has the others and quotes them. */
UNIT(what_is_no_address_owns_nothing)
{
    static const char *const bad[] = {"",
                                      "tcp:/127.0.0.1:1",
                                      "unix:/s",
                                      "tcp://u@127.0.0.1:1",
                                      "tcp://u:p@127.0.0.1:1",
                                      "tcp://127.0.0.1:1?mode=0600",
                                      "tcp://[127.0.0.1]:1",
                                      "tcp://[::1:1",
                                      "tcp://[::1]",
                                      "tcp://[]:1",
                                      "unix:///a\x1f"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct address a;
        assert_non_null(address_parse(slice_str(bad[i]), &a));
        assert_null(a.text);
        assert_null(a.host);
        assert_null(a.path);
    }
}

UNIT(a_unix_socket_has_options)
{
    static const struct {
        const char *text, *wrong;
        mode_t mode;
        const char *group;
    } all[] = {
        {"unix:///run/x.sock", NULL, 0, ""},
        {"unix:///run/x.sock?mode=0600", NULL, 0600, ""},
        {"unix:///run/x.sock?mode=666&group=www-data", NULL, 0666, "www-data"},
        {"unix:///run/x.sock?mode=0060", "mode", 0, NULL},
        {"unix:///run/x.sock?mode=0770", "mode", 0, NULL},
        {"unix:///run/x.sock?mode=06660", "mode", 0, NULL},
        {"unix:///run/x.sock?mode=0680", "mode", 0, NULL},
        {"unix:///run/x.sock?group=", "group", 0, NULL},
        {"unix:///run/x.sock?group=-x", "group", 0, NULL},
        {"unix:///run/x.sock?", "behind its '?'", 0, NULL},
        {"unix:///run/x.sock?mode=0600&", "behind its '?'", 0, NULL},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct address a;
        const char *wrong = address_parse(slice_str(all[i].text), &a);
        if (all[i].wrong != NULL) {
            assert_non_null(strstr(wrong, all[i].wrong));
            continue;
        }
        assert_null(wrong);
        assert_string_equal(a.path, "/run/x.sock");
        assert_int_equal(a.mode, all[i].mode);
        assert_string_equal(a.group, all[i].group);
        address_free(&a);
    }
}

UNIT(paths_as_long_as_a_socket_name)
{
    char url[7 + 108 + 1] = "unix:///";
    struct address a;
    memset(url + 8, 'x', 107);
    assert_non_null(strstr(address_parse(slice_of(url, 7 + 108), &a), "107"));
    assert_null(address_parse(slice_of(url, 7 + 107), &a));
    assert_int_equal(strlen(a.path), 107);
    address_free(&a);
}

/* A socket of this group that listens, and is gone then. */
static int listens(const char *group, mode_t mode, struct error *e)
{
    char path[64];
    struct address a = {.text = path, .path = path, .mode = mode};
    struct stat st;
    snprintf(path, sizeof path, "/tmp/tly-address-%d", (int)getpid());
    snprintf(a.group, sizeof a.group, "%s", group);
    int fd = address_listen(&a, 10, e);
    if (fd >= 0) {
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_mode & 0777, mode != 0 ? mode : 0660);
        struct sockaddr_un at = {.sun_family = AF_UNIX};
        snprintf(at.sun_path, sizeof at.sun_path, "%s", path);
        int client = socket(AF_UNIX, SOCK_STREAM, 0);
        assert_int_equal(connect(client, (struct sockaddr *)&at, sizeof at), 0);
        close(client);
        address_unlink(&a);
        close(fd);
    }
    assert_int_not_equal(stat(path, &st), 0);
    return fd;
}

UNIT(groups_are_found)
{
    struct error e;
    char number[16];
    snprintf(number, sizeof number, "%u", (unsigned)getegid());
    assert_true(listens("", 0, &e) >= 0);
    assert_true(listens(number, 0600, &e) >= 0);
    assert_true(listens("shop", 0666, &e) >= 0);
    assert_int_equal(listens("nobody-knows-it", 0, &e), -1);
    assert_non_null(strstr(e.text, "there is no group nobody-knows-it on this machine"));
    assert_int_equal(listens("broken", 0, &e), -1);
    assert_non_null(strstr(e.text, "the group broken cannot be looked up (Input/output error)"));
}

UNIT(a_port_that_is_taken)
{
    char text[32] = "tcp://127.0.0.1:0", host[] = "127.0.0.1";
    struct address a = {.text = text, .host = host};
    struct sockaddr_in sin;
    socklen_t n = sizeof sin;
    struct error e;
    int fd = address_listen(&a, 10, &e);
    assert_true(fd >= 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&sin, &n), 0);
    a.port = ntohs(sin.sin_port);
    assert_int_equal(address_listen(&a, 10, &e), -1);
    assert_non_null(strstr(e.text, ": bind: Address already in use: is another process there?"));
    close(fd);
}
