/* SPDX-License-Identifier: MIT */
/*
 * Runs a command on a terminal of its own and plays a user:
 *
 *   pty_run STEP... -- COMMAND ARGUMENT...
 *
 *   expect TEXT    wait until TEXT has come, behind what earlier steps waited for
 *   prompt TEXT    the same, and until the line editor has taken the terminal over: a key that
 *                  comes before that is the kernel's and not the editor's
 *   grow N         wait until N more bytes have come
 *   send TEXT      type TEXT and Return
 *   key LETTER     hold Ctrl and type LETTER
 *
 * Everything the command writes goes to standard output. The exit status is the command's (128 +
 * signal if one ended it), or 99 if something did not come within 30 seconds.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#define PATIENCE_S 30
#define FAILED 99

static int terminal;
static pid_t child;
static GString *seen;
static gsize n_matched; /* of @seen, used up by earlier steps */
static gint64 deadline;

static void
fail(const char *what, const char *text)
{
    fprintf(stderr, "pty_run: %s '%s'\n", what, text);
    kill(child, SIGKILL);
    exit(FAILED);
}

/* Reads what there is, waiting a little; FALSE when the other side has closed. */
static gboolean
pump(void)
{
    struct pollfd ready = {.fd = terminal, .events = POLLIN};
    char buffer[4096];
    ssize_t n;

    if (poll(&ready, 1, 100) <= 0)
        return TRUE;
    n = read(terminal, buffer, sizeof buffer);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return TRUE;
    if (n <= 0)
        return FALSE;
    fwrite(buffer, 1, (size_t) n, stdout);
    g_string_append_len(seen, buffer, n);
    return TRUE;
}

static void
expect(const char *text)
{
    const char *at;

    while ((at = strstr(seen->str + n_matched, text)) == NULL) {
        if (!pump())
            fail("the command ended before", text);
        if (g_get_monotonic_time() > deadline)
            fail("nobody said", text);
    }
    n_matched = (gsize) (at - seen->str) + strlen(text);
}

/* Without a line editor the terminal stays as it is: then a second is long enough. */
static void
await_editor(void)
{
    gint64 end = g_get_monotonic_time() + G_USEC_PER_SEC;
    struct termios mode;

    while (tcgetattr(terminal, &mode) == 0 && (mode.c_lflag & ICANON) != 0 &&
           g_get_monotonic_time() < end)
        g_usleep(2000);
}

static void
grow(const char *text)
{
    gsize goal = seen->len + (gsize) atoi(text);

    while (seen->len < goal) {
        if (!pump())
            fail("the command ended before it had written", text);
        if (g_get_monotonic_time() > deadline)
            fail("too little came, not", text);
    }
}

static void
type(const char *text, gsize n)
{
    if (write(terminal, text, n) != (ssize_t) n)
        fail("cannot type", text);
}

static void
play(const char *verb, const char *text)
{
    if (strcmp(verb, "expect") == 0) {
        expect(text);
    } else if (strcmp(verb, "prompt") == 0) {
        expect(text);
        await_editor();
    } else if (strcmp(verb, "grow") == 0) {
        grow(text);
    } else if (strcmp(verb, "send") == 0) {
        type(text, strlen(text));
        type("\r", 1);
    } else if (strcmp(verb, "key") == 0) {
        char c = (char) (text[0] & 0x1f);

        type(&c, 1);
    } else {
        fail("no such step:", verb);
    }
}

static void
start(char **command)
{
    struct winsize size = {.ws_row = 24, .ws_col = 80};
    const char *name;

    terminal = posix_openpt(O_RDWR | O_NOCTTY);
    if (terminal < 0 || grantpt(terminal) != 0 || unlockpt(terminal) != 0)
        exit(77); /* no terminals here: skipped */
    ioctl(terminal, TIOCSWINSZ, &size);
    name = ptsname(terminal);
    child = fork();
    if (child == 0) {
        int other;

        setsid();
        other = open(name, O_RDWR);
        if (other < 0)
            _exit(FAILED);
        dup2(other, STDIN_FILENO);
        dup2(other, STDOUT_FILENO);
        dup2(other, STDERR_FILENO);
        close(terminal);
        signal(SIGINT, SIG_DFL);
        execvp(command[0], command);
        _exit(127);
    }
}

int
main(int argc, char **argv)
{
    int n_steps = 1, status;

    while (n_steps < argc && strcmp(argv[n_steps], "--") != 0)
        n_steps++;
    if (n_steps >= argc - 1 || n_steps % 2 == 0) {
        fputs("usage: pty_run [expect|prompt|grow|send|key TEXT]... -- COMMAND...\n", stderr);
        return FAILED;
    }
    seen = g_string_new(NULL);
    start(argv + n_steps + 1);
    for (int i = 1; i < n_steps; i += 2) {
        deadline = g_get_monotonic_time() + PATIENCE_S * G_USEC_PER_SEC;
        play(argv[i], argv[i + 1]);
    }
    deadline = g_get_monotonic_time() + PATIENCE_S * G_USEC_PER_SEC;
    while (pump())
        if (g_get_monotonic_time() > deadline)
            fail("the command goes on behind", argv[n_steps - 1]);
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
