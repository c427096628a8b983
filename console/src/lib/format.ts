/** How times, numbers and money are shown. Values stay as the API gave them; only the text is made here. */

export function formatTime(iso: string | number | Date, locale: string): string {
  const d = new Date(iso);
  if (Number.isNaN(d.getTime())) {
    return String(iso);
  }
  return new Intl.DateTimeFormat(locale, {
    year: 'numeric',
    month: 'short',
    day: 'numeric',
    hour: '2-digit',
    minute: '2-digit',
    second: '2-digit',
    hour12: false,
    timeZoneName: 'short',
  }).format(d);
}

/** A whole number given as text, never through a float: 9007199254740993 stays itself. */
export function formatCount(value: string | number | bigint, locale: string): string {
  try {
    return new Intl.NumberFormat(locale).format(BigInt(value));
  } catch {
    return String(value);
  }
}

const byteUnits = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];

export function formatBytes(value: string | number, locale: string): string {
  let n = Number(value);
  if (!Number.isFinite(n)) {
    return String(value);
  }
  let unit = 0;
  while (n >= 1024 && unit < byteUnits.length - 1) {
    n /= 1024;
    unit++;
  }
  const digits = unit === 0 ? 0 : n < 10 ? 2 : 1;
  return `${new Intl.NumberFormat(locale, { maximumFractionDigits: digits }).format(n)} ${byteUnits[unit]}`;
}

/** An amount of whole `10^-digits` units as money, exact for any length. */
export function formatAmount(amount: string, digits: number, currency: string, locale: string): string {
  const negative = amount.startsWith('-');
  const figures = (negative ? amount.slice(1) : amount).padStart(digits + 1, '0');
  const whole = figures.slice(0, figures.length - digits) || '0';
  const rest = digits > 0 ? figures.slice(-digits) : '';
  const parts = new Intl.NumberFormat(locale, {
    style: 'currency',
    currency,
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
  }).formatToParts(negative ? -0.0 : 0);
  const body = parts
    .map((p) => {
      switch (p.type) {
        case 'integer':
          return new Intl.NumberFormat(locale).format(BigInt(whole));
        case 'fraction':
          return rest;
        default:
          return p.value;
      }
    })
    .join('');
  return negative && !body.includes('-') ? `-${body}` : body;
}

/** Micros as money without zeros at the end beyond the two that money has. */
export function formatMicros(micros: string, currency: string, locale: string): string {
  const negative = micros.startsWith('-');
  let figures = (negative ? micros.slice(1) : micros).padStart(7, '0');
  let digits = 6;
  while (digits > 2 && figures.endsWith('0')) {
    figures = figures.slice(0, -1);
    digits--;
  }
  return formatAmount((negative ? '-' : '') + figures, digits, currency, locale);
}
