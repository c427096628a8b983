import 'uplot/dist/uPlot.min.css';
import { useEffect, useRef } from 'react';
import { useTranslation } from 'react-i18next';
import uPlot from 'uplot';
import { useDark } from '../../lib/theme';
import { useLocale } from '../data';
import type { Chart } from '../usage';

// Told apart in both themes, also by people who see few colours; each at least 3:1 against the surface.
const light = ['#0958d9', '#b35900', '#1a7f37', '#a3195b', '#6b46c1', '#00707a', '#8a6d00', '#4b5563', '#c2410c'];
const dark = ['#5ea2f5', '#f0a35c', '#5fcf7c', '#f279ac', '#b79bf2', '#4cc9d6', '#d9bd4a', '#aab4c3', '#ff9c66'];

// What is counted is whole, so the scale is too.
const wholeSteps = Array.from({ length: 16 }, (_, i) => [1, 2, 5].map((n) => n * 10 ** i)).flat();

/** Lines over time. The table below it holds the same figures for those who do not see the drawing. */
export function UsageChart({ chart, label, format }: { chart: Chart; label: string; format: (n: number) => string }) {
  const { t } = useTranslation();
  const locale = useLocale();
  const isDark = useDark();
  const box = useRef<HTMLDivElement>(null);

  useEffect(() => {
    const at = box.current;
    if (!at) {
      return;
    }
    const colors = isDark ? dark : light;
    const style = getComputedStyle(document.documentElement);
    const text = style.getPropertyValue('--muted').trim();
    const line = style.getPropertyValue('--line').trim();
    const when = new Intl.DateTimeFormat(locale, {
      month: 'short',
      day: 'numeric',
      hour: '2-digit',
      minute: '2-digit',
      hour12: false,
      timeZoneName: 'short',
    });
    const axis = { stroke: text, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 } };
    const plot = new uPlot(
      {
        width: at.clientWidth || 600,
        height: 300,
        series: [
          { label: t('usage.period'), value: (_, s) => (s === null ? '–' : when.format(new Date(s * 1000))) },
          ...chart.series.map((s, i) => ({
            label: s.name,
            stroke: colors[i % colors.length],
            width: 2,
            points: { show: chart.times.length < 60 },
            value: (_: uPlot, v: number | null) => (v === null ? '–' : format(v)),
          })),
        ],
        axes: [
          { ...axis, values: (_, splits) => splits.map((s) => shortTime(s, splits, locale)) },
          { ...axis, size: 80, incrs: wholeSteps, values: (_, splits) => splits.map((v) => format(v)) },
        ],
        scales: { y: { range: (_, __, max) => [0, max > 0 ? max * 1.1 : 1] } },
      },
      [chart.times, ...chart.series.map((s) => s.values)],
      at,
    );
    const watch = new ResizeObserver(() => plot.setSize({ width: at.clientWidth || 600, height: 300 }));
    watch.observe(at);
    return () => {
      watch.disconnect();
      plot.destroy();
    };
  }, [chart, format, isDark, locale, t]);

  return <div ref={box} className="chart" role="img" aria-label={label} data-testid="usage-chart" />;
}

function shortTime(seconds: number, all: number[], locale: string): string {
  const span = (all.at(-1) ?? 0) - (all[0] ?? 0);
  const form: Intl.DateTimeFormatOptions =
    span > 3 * 86_400 ? { month: 'short', day: 'numeric' } : { hour: '2-digit', minute: '2-digit', hour12: false };
  return new Intl.DateTimeFormat(locale, form).format(new Date(seconds * 1000));
}
