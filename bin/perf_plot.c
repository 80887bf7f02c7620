/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * --plot: latency and bandwidth over size as an SVG picture, both axes
 * logarithmic.  The same points always make the same file.  The colours follow
 * the reader's preferred scheme, light if the viewer has none.
 */
#include "perf.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define WIDTH 960
#define TOP 66 /* y of a panel */
#define PANEL_WIDTH 390
#define PANEL_HEIGHT 320
#define LEGEND_TOP (TOP + PANEL_HEIGHT + 66)
#define LEFT 72
#define LEGEND_ROW 22
#define LETTER 7.0 /* approximate width of a letter in the legend */
#define COLOURS 6
#define TICKS_MAX 64
#define SIZE_LABEL 60 /* width of "256 KiB" and a gap */

/* One of the two diagrams. */
struct panel {
    double left;        /* x of its area */
    double least, most; /* base-10 logarithms at bottom and top */
    const char *title;
    double (*value)(const struct perf_point *point);
};

/* Sizes at the left and right of both diagrams, as base-2 logarithms. */
struct sizes {
    double least, most;
};

static double value_us(const struct perf_point *point)
{
    return point->us;
}

static double value_gbs(const struct perf_point *point)
{
    return point->gbs;
}

/* ---- text ---- */

/* Writes a user's text as XML; non-ASCII and control characters become '?'. */
static void write_text(FILE *file, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '&')
            fputs("&amp;", file);
        else if (*text == '<')
            fputs("&lt;", file);
        else if (*text == '>')
            fputs("&gt;", file);
        else
            putc(*text >= ' ' && *text < 0x7f ? *text : '?', file);
    }
}

static void write_head(FILE *file, const char *title, int height)
{
    fprintf(file,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
        "viewBox=\"0 0 %d %d\" role=\"img\" font-family=\"sans-serif\" "
        "font-size=\"13\">\n<title>",
        WIDTH, height, WIDTH, height);
    write_text(file, title);
    fputs("</title>\n"
          "<style>\n"
          ".back{fill:#fff} text{fill:#24292f} .axis{stroke:#8c959f}\n"
          ".tick{stroke:#dfe3e8}\n"
          ".c0{color:#0060c0} .c1{color:#c93c00} .c2{color:#008060}\n"
          ".c3{color:#a0399b} .c4{color:#8a6a00} .c5{color:#57606a}\n"
          "@media (prefers-color-scheme:dark){\n"
          ".back{fill:#0d1117} text{fill:#e6edf3} .axis{stroke:#6e7681}\n"
          ".tick{stroke:#262c36}\n"
          ".c0{color:#58a6ff} .c1{color:#ff8f5a} .c2{color:#3fd0a0}\n"
          ".c3{color:#e08ad8} .c4{color:#e3b341} .c5{color:#a9b4c0}\n"
          "}\n"
          "</style>\n",
        file);
    fprintf(file,
        "<rect class=\"back\" width=\"%d\" height=\"%d\"/>\n"
        "<text x=\"%d\" y=\"26\" font-size=\"16\" font-weight=\"bold\">",
        WIDTH, height, LEFT);
    write_text(file, title);
    fputs("</text>\n", file);
}

/* ---- axes ---- */

static double place_x(
    const struct panel *panel, const struct sizes *sizes, double nbytes)
{
    return panel->left + (log2(nbytes) - sizes->least) /
                             (sizes->most - sizes->least) * PANEL_WIDTH;
}

static double place_y(const struct panel *panel, double value)
{
    return TOP + (panel->most - log10(value)) / (panel->most - panel->least) *
                     PANEL_HEIGHT;
}

/* Writes "8 B" or "4 KiB", a power of two. */
static void write_size(FILE *file, int exponent)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int unit = exponent / 10 < 4 ? exponent / 10 : 4;

    fprintf(file, "%.0f %s", exp2(exponent - 10 * unit), units[unit]);
}

static void write_size_axis(
    FILE *file, const struct panel *panel, const struct sizes *sizes)
{
    int first = (int)ceil(sizes->least), last = (int)floor(sizes->most);
    int step = 1;

    while (step * PANEL_WIDTH < SIZE_LABEL * (sizes->most - sizes->least))
        step++;
    for (int tick = (first + step - 1) / step * step; tick <= last;
         tick += step) {
        double x = place_x(panel, sizes, exp2(tick));

        fprintf(file,
            "<path class=\"tick\" d=\"M%.1f %dv%d\"/>"
            "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\" "
            "font-size=\"12\">",
            x, TOP, PANEL_HEIGHT, x, TOP + PANEL_HEIGHT + 18);
        write_size(file, tick);
        fputs("</text>\n", file);
    }
    fprintf(file,
        "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">size</text>\n",
        panel->left + PANEL_WIDTH / 2.0, TOP + PANEL_HEIGHT + 38);
}

/* Writes lines at 1, 2 and 5 times each power of ten, with numbers at all of
 * them if they are few. */
static void write_value_axis(FILE *file, const struct panel *panel)
{
    static const double steps[] = {1, 2, 5};
    bool few = panel->most - panel->least < 2.5;

    for (int tick = 0; tick < TICKS_MAX; tick++) {
        int decade = (int)floor(panel->least) + tick / 3;
        double value = steps[tick % 3] * pow(10, decade);
        double y = place_y(panel, value);

        if (y > TOP + PANEL_HEIGHT + 0.5)
            continue;
        if (y < TOP - 0.5)
            break;
        fprintf(file, "<path class=\"tick\" d=\"M%.1f %.1fh%d\"/>", panel->left,
            y, PANEL_WIDTH);
        if (few || tick % 3 == 0)
            fprintf(file,
                "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\" "
                "font-size=\"12\">%.*f</text>",
                panel->left - 8, y + 4, decade < 0 ? -decade : 0, value);
        putc('\n', file);
    }
    fprintf(file, "<text x=\"%.1f\" y=\"%d\">%s</text>\n", panel->left,
        TOP - 12, panel->title);
}

static void write_frame(FILE *file, const struct panel *panel)
{
    fprintf(file,
        "<rect class=\"axis\" x=\"%.1f\" y=\"%d\" width=\"%d\" height=\"%d\" "
        "fill=\"none\"/>\n",
        panel->left, TOP, PANEL_WIDTH, PANEL_HEIGHT);
}

/* ---- series ---- */

/* Begins a series; the colour changes first, then the kind of line. */
static void begin_series(FILE *file, int number)
{
    static const char *const dashes[] = {"none", "7 4", "2 3"};

    fprintf(file,
        "<g class=\"c%d\" stroke=\"currentColor\" fill=\"currentColor\" "
        "stroke-width=\"2\" stroke-dasharray=\"%s\">",
        number % COLOURS, dashes[number / COLOURS % 3]);
}

static void write_series(FILE *file, const struct panel *panel,
    const struct sizes *sizes, const struct perf_series *series, int number)
{
    begin_series(file, number);
    fputs("<polyline fill=\"none\" stroke-linejoin=\"round\" points=\"", file);
    for (size_t i = 0; i < series->npoints; i++)
        fprintf(file, "%s%.1f,%.1f", i > 0 ? " " : "",
            place_x(panel, sizes, series->points[i].nbytes),
            place_y(panel, panel->value(&series->points[i])));
    fputs("\"/>\n", file);
    for (size_t i = 0; i < series->npoints; i++)
        fprintf(file,
            "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.5\" stroke=\"none\"/>%s",
            place_x(panel, sizes, series->points[i].nbytes),
            place_y(panel, panel->value(&series->points[i])),
            i % 4 == 3 || i + 1 == series->npoints ? "\n" : "");
    fputs("</g>\n", file);
}

/* Lays out the legend line by line, and writes it if there is a file.  Returns
 * the number of lines. */
static int write_legend(FILE *file, const struct perf_chart *chart)
{
    double x = LEFT;
    int row = 0;

    for (int i = 0; i < chart->nseries; i++) {
        const char *label = chart->series[i].label;
        double width = 60 + LETTER * (double)strlen(label);
        int y;

        if (x > LEFT && x + width > WIDTH) {
            x = LEFT;
            row++;
        }
        y = LEGEND_TOP + row * LEGEND_ROW;
        if (file != NULL) {
            begin_series(file, i);
            fprintf(file,
                "<path d=\"M%.1f %dh28\"/><circle cx=\"%.1f\" cy=\"%d\" "
                "r=\"2.5\" stroke=\"none\"/></g><text x=\"%.1f\" y=\"%d\">",
                x, y, x + 14, y, x + 36, y + 4);
            write_text(file, label);
            fputs("</text>\n", file);
        }
        x += width;
    }
    return row + 1;
}

/* ---- the picture ---- */

/* Returns, as a logarithm, the nearest of 1, 2, 5, 10, ... at or below a value,
 * or with `up` at or above it. */
static double round_value(double value, bool up)
{
    static const double steps[] = {1, 2, 5, 10};
    double decade = floor(log10(value)), found = up ? decade + 1 : decade;

    for (int i = 0; i < 4; i++) {
        double at = decade + log10(steps[up ? 3 - i : i]);

        if (up ? at >= log10(value) - 1e-9 : at <= log10(value) + 1e-9)
            found = at;
    }
    return found;
}

/* Finds the ranges of both axes. */
static void find_range(
    struct panel *panel, struct sizes *sizes, const struct perf_chart *chart)
{
    const struct perf_point *first = chart->series[0].points;
    double low = panel->value(first), high = low;
    double left = first->nbytes, right = left;

    for (int i = 0; i < chart->nseries; i++)
        for (size_t p = 0; p < chart->series[i].npoints; p++) {
            const struct perf_point *point = &chart->series[i].points[p];

            low = fmin(low, panel->value(point));
            high = fmax(high, panel->value(point));
            left = fmin(left, point->nbytes);
            right = fmax(right, point->nbytes);
        }
    panel->least = round_value(low, false);
    panel->most = round_value(high, true);
    if (panel->most - panel->least < 0.1)
        panel->most = panel->least + 1;
    sizes->least = log2(left) - 0.5;
    sizes->most = log2(right) + 0.5;
}

static void write_picture(FILE *file, const struct perf_chart *chart)
{
    struct panel panels[2] = {
        {LEFT, 0, 0, "median time, microseconds", value_us},
        {WIDTH - 40 - PANEL_WIDTH, 0, 0,
            "bandwidth, GB/s (size by median time)", value_gbs},
    };
    int height = LEGEND_TOP + LEGEND_ROW * (write_legend(NULL, chart) - 1) + 24;
    struct sizes sizes;

    write_head(file, chart->title, height);
    for (int i = 0; i < 2; i++) {
        find_range(&panels[i], &sizes, chart);
        write_size_axis(file, &panels[i], &sizes);
        write_value_axis(file, &panels[i]);
        write_frame(file, &panels[i]);
        for (int s = 0; s < chart->nseries; s++)
            write_series(file, &panels[i], &sizes, &chart->series[s], s);
    }
    write_legend(file, chart);
    fputs("</svg>\n", file);
}

static bool write_file(const char *path, const struct perf_chart *chart)
{
    FILE *file = fopen(path, "w");
    bool written;

    errno = file == NULL ? errno : 0;
    if (file != NULL) {
        write_picture(file, chart);
        written = fflush(file) == 0 && !ferror(file);
        if (fclose(file) == 0 && written)
            return true;
    }
    fprintf(stderr, "symmcoll-perf: %s: %s\n", path,
        errno != 0 ? strerror(errno) : "a part was lost");
    return false;
}

bool perf_plot(const struct perf_options *options)
{
    struct perf_chart chart;
    bool drawn =
        perf_chart_read(&chart, options) && write_file(options->plot, &chart);

    perf_chart_free(&chart);
    return drawn;
}
