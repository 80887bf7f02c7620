/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The loss curve as SVG: drawn by gnuplot if it is installed, otherwise by this
 * file.
 */
#include "charlm.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* ---- gnuplot ---- */

static const char *const level_names[3] = {
    "network, held out", "bigram table, held out", "order-6 table, held out"};

static void write_script(FILE *script, const struct charlm_curve *curve,
    const struct charlm_scores *scores)
{
    int last = curve->count * curve->interval;

    fprintf(script,
        "set terminal svg size 800,480 font 'sans,13' background 'white'\n"
        "set xlabel 'step'\nset ylabel 'loss, nats a character'\n"
        "set grid\nset yrange [0:*]\nset xrange [0:%d]\n"
        "plot '-' with lines linewidth 2 title 'training'",
        last);
    for (int i = 0; i < 3 && scores->blocks[1] > 0.0; i++)
        fprintf(script, ", %.4f with lines dashtype 2 title '%s'",
            scores->blocks[i], level_names[i]);
    fprintf(script, "\n");
    for (int i = 0; i < curve->count; i++)
        fprintf(script, "%d %.5f\n", (i + 1) * curve->interval,
            (double)curve->losses[i]);
    fprintf(script, "e\n");
}

/* Runs gnuplot with the script as input and the picture as output. */
static bool run_gnuplot(int script, int picture)
{
    static char name[] = "gnuplot", no_user_files[] = "--default-settings";
    char *const argv[] = {name, no_user_files, NULL};
    posix_spawn_file_actions_t actions;
    int failed, status = -1;
    pid_t pid;

    if (posix_spawn_file_actions_init(&actions) != 0)
        return false;
    failed = posix_spawn_file_actions_adddup2(&actions, script, STDIN_FILENO);
    if (failed == 0)
        failed =
            posix_spawn_file_actions_adddup2(&actions, picture, STDOUT_FILENO);
    if (failed == 0)
        failed = posix_spawn_file_actions_addopen(
            &actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    if (failed == 0)
        failed = posix_spawnp(&pid, name, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (failed != 0)
        return false;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return false;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Returns false if there is no gnuplot, or one without SVG. */
static bool draw_with_gnuplot(FILE *picture, const struct charlm_curve *curve,
    const struct charlm_scores *scores)
{
    FILE *script = tmpfile();
    bool drawn = false;

    if (script == NULL)
        return false;
    write_script(script, curve, scores);
    if (fflush(script) == 0 && lseek(fileno(script), 0, SEEK_SET) == 0)
        drawn = run_gnuplot(fileno(script), fileno(picture));
    fclose(script);
    return drawn && lseek(fileno(picture), 0, SEEK_END) > 0;
}

/* ---- without gnuplot ---- */

#define WIDTH 800
#define HEIGHT 480
#define LEFT 60
#define RIGHT 20
#define TOP 20
#define BOTTOM 50

struct scale {
    double largest; /* loss at the top */
    int steps;      /* step at the right */
};

static double place_x(const struct scale *scale, double step)
{
    return LEFT + step / scale->steps * (WIDTH - LEFT - RIGHT);
}

static double place_y(const struct scale *scale, double loss)
{
    return HEIGHT - BOTTOM - loss / scale->largest * (HEIGHT - TOP - BOTTOM);
}

static void write_axes(FILE *file, const struct scale *scale)
{
    for (int tick = 0; tick <= (int)scale->largest; tick++)
        fprintf(file,
            "<path d='M%d %.1fH%d' stroke='#ccc'/>"
            "<text x='%d' y='%.1f' text-anchor='end'>%d</text>\n",
            LEFT, place_y(scale, tick), WIDTH - RIGHT, LEFT - 8,
            place_y(scale, tick) + 4, tick);
    for (int tick = 0; tick <= 4; tick++)
        fprintf(file, "<text x='%.1f' y='%d' text-anchor='middle'>%d</text>\n",
            place_x(scale, scale->steps * tick / 4.0), HEIGHT - BOTTOM + 20,
            (int)((long long)scale->steps * tick / 4));
    fprintf(file,
        "<text x='%d' y='%d' text-anchor='middle'>step</text>\n"
        "<text transform='translate(18 %d) rotate(-90)' text-anchor='middle'>"
        "loss, nats a character</text>\n",
        (WIDTH + LEFT - RIGHT) / 2, HEIGHT - 10, (HEIGHT - BOTTOM + TOP) / 2);
}

static void write_picture(FILE *file, const struct charlm_curve *curve,
    const struct charlm_scores *scores)
{
    struct scale scale = {1.0, curve->count * curve->interval};

    for (int i = 0; i < curve->count; i++)
        if ((double)curve->losses[i] > scale.largest)
            scale.largest = (double)curve->losses[i];
    for (int i = 0; i < 3; i++)
        if (scores->blocks[i] > scale.largest)
            scale.largest = scores->blocks[i];
    scale.largest *= 1.05;
    fprintf(file,
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %d %d' "
        "font-family='sans-serif' font-size='13'>\n"
        "<rect width='%d' height='%d' fill='white'/>\n",
        WIDTH, HEIGHT, WIDTH, HEIGHT);
    write_axes(file, &scale);
    for (int i = 0; i < 3 && scores->blocks[1] > 0.0; i++)
        fprintf(file,
            "<path d='M%d %.1fH%d' stroke='#666' stroke-dasharray='6 4'/>"
            "<text x='%d' y='%.1f' text-anchor='end'>%s %.3f</text>\n",
            LEFT, place_y(&scale, scores->blocks[i]), WIDTH - RIGHT,
            WIDTH - RIGHT - 4, place_y(&scale, scores->blocks[i]) - 4,
            level_names[i], scores->blocks[i]);
    fprintf(file, "<polyline fill='none' stroke='#06c' stroke-width='2' "
                  "points='");
    for (int i = 0; i < curve->count; i++)
        fprintf(file, "%.1f,%.1f ",
            place_x(&scale, (double)(i + 1) * curve->interval),
            place_y(&scale, (double)curve->losses[i]));
    fprintf(file, "'/>\n</svg>\n");
}

static bool draw_by_hand(FILE *picture, const struct charlm_curve *curve,
    const struct charlm_scores *scores)
{
    if (ftruncate(fileno(picture), 0) != 0)
        return false;
    rewind(picture);
    write_picture(picture, curve, scores);
    return fflush(picture) == 0 && !ferror(picture);
}

/* ---- with or without gnuplot ---- */

static int copy_picture(
    FILE *picture, const struct charlm_output *output, char *error)
{
    char buffer[4096];
    size_t n;

    if (charlm_truncate_output(output, error) != 0)
        return -1;
    rewind(picture);
    while ((n = fread(buffer, 1, sizeof(buffer), picture)) > 0)
        if (charlm_write_output(output, buffer, n, error) != 0)
            return -1;
    if (ferror(picture))
        return charlm_fail(error, "cannot read the picture back");
    return 0;
}

int charlm_plot(const struct charlm_output *output,
    const struct charlm_curve *curve, const struct charlm_scores *scores,
    char *error)
{
    FILE *picture = tmpfile();
    int status;

    if (picture == NULL)
        return charlm_fail(error, "cannot draw %s: no temporary file: %s",
            output->path, strerror(errno));
    if (draw_with_gnuplot(picture, curve, scores) ||
        draw_by_hand(picture, curve, scores))
        status = copy_picture(picture, output, error);
    else
        status = charlm_fail(
            error, "cannot draw %s: %s", output->path, strerror(errno));
    fclose(picture);
    return status;
}
