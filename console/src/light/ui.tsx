import { type ComponentProps, type ReactNode, useEffect, useId, useRef, useState } from 'react';
import { useTranslation } from 'react-i18next';
import type { ApiProblem } from '../api/problem';
import { type Language, languages, setLanguage } from '../i18n';
import { go, href } from '../lib/location';
import { setTheme, type ThemeChoice, themeChoices, useThemeChoice } from '../lib/theme';
import { useProblemText } from '../lib/useProblemText';

/** The frame of the pages before the console: nothing but text, inputs and the colours of tokens.css. */
export function LightPage(props: { title: string; wide?: boolean; actions?: ReactNode; children: ReactNode }) {
  const { t } = useTranslation();
  useTitle(props.title);
  return (
    <div className="light">
      <header className="light-head">
        <Go to="/" className="brand">
          <Mark />
          {t('app.name')}
        </Go>
        <div className="light-tools">
          {props.actions}
          <LanguageSelect />
          <ThemeSelect />
        </div>
      </header>
      <main className={props.wide ? 'light-main wide' : 'light-main'}>
        <h1>{props.title}</h1>
        {props.children}
      </main>
    </div>
  );
}

export function useTitle(title: string) {
  const { t } = useTranslation();
  useEffect(() => {
    document.title = t('app.title', { page: title });
  }, [t, title]);
}

export function Mark() {
  return (
    <svg className="mark" viewBox="0 0 32 32" aria-hidden="true">
      <rect width="32" height="32" rx="7" fill="currentColor" />
      <path d="M8 9h16M8 16h10M8 23h16M22 13v6" stroke="var(--surface)" strokeWidth="3.2" strokeLinecap="round" />
    </svg>
  );
}

/** A link inside the console that does not load the page again. */
export function Go({ to, onClick, ...rest }: { to: string } & Omit<ComponentProps<'a'>, 'href'>) {
  return (
    <a
      {...rest}
      href={href(to)}
      onClick={(e) => {
        onClick?.(e);
        if (!e.defaultPrevented && !e.ctrlKey && !e.metaKey && !e.shiftKey && e.button === 0) {
          e.preventDefault();
          go(to);
        }
      }}
    />
  );
}

export function LanguageSelect() {
  const { t, i18n } = useTranslation();
  return (
    <select
      className="tool"
      aria-label={t('language.label')}
      data-testid="language"
      value={i18n.language}
      onChange={(e) => void setLanguage(e.target.value as Language)}
    >
      {languages.map((l) => (
        <option key={l} value={l}>
          {t(`language.${l}`)}
        </option>
      ))}
    </select>
  );
}

export function ThemeSelect() {
  const { t } = useTranslation();
  const choice = useThemeChoice();
  return (
    <select
      className="tool"
      aria-label={t('theme.label')}
      value={choice}
      onChange={(e) => setTheme(e.target.value as ThemeChoice)}
    >
      {themeChoices.map((c) => (
        <option key={c} value={c}>
          {t(`theme.${c}`)}
        </option>
      ))}
    </select>
  );
}

export function Field(
  props: { label: string; hint?: string; error?: string } & Omit<ComponentProps<'input'>, 'id' | 'children'>,
) {
  const { label, hint, error, ...input } = props;
  const id = useId();
  const described = [hint ? `${id}-hint` : '', error ? `${id}-error` : ''].filter(Boolean).join(' ') || undefined;
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      <input {...input} id={id} aria-describedby={described} aria-invalid={error ? true : undefined} />
      {hint && !error && (
        <p className="hint" id={`${id}-hint`}>
          {hint}
        </p>
      )}
      {error && (
        <p className="field-error" id={`${id}-error`}>
          {error}
        </p>
      )}
    </div>
  );
}

export function Button({
  busy,
  kind = 'primary',
  children,
  ...rest
}: { busy?: boolean; kind?: 'primary' | 'plain' } & ComponentProps<'button'>) {
  return (
    <button
      type="button"
      {...rest}
      className={`button ${kind}`}
      aria-busy={busy || undefined}
      aria-disabled={busy || rest.disabled || undefined}
      onClick={(e) => {
        // A busy button stays focusable, so that the keyboard's place is not lost; it only does nothing.
        if (busy) {
          e.preventDefault();
          return;
        }
        rest.onClick?.(e);
      }}
    >
      {busy && <span className="spinner" aria-hidden="true" />}
      {children}
    </button>
  );
}

/** What went wrong, with the id to give to support. `title` replaces the general one where the page knows better. */
export function ProblemNote({ problem, title }: { problem: ApiProblem; title?: string }) {
  const { t } = useTranslation();
  const text = useProblemText(problem);
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    box.current?.scrollIntoView({ block: 'nearest' });
  }, []);
  return (
    <div className="note bad" role="alert" ref={box}>
      <strong>{title ?? text.title}</strong>
      {!title && text.detail && <p>{text.detail}</p>}
      {problem.requestId && (
        <p className="hint">
          {t('problem.request_id')} <code>{problem.requestId}</code>
        </p>
      )}
    </div>
  );
}

export function CopyButton({ text, label }: { text: string; label: string }) {
  const { t } = useTranslation();
  const [done, setDone] = useState<'idle' | 'copied' | 'failed'>('idle');
  useEffect(() => {
    if (done === 'idle') {
      return;
    }
    const timer = setTimeout(() => setDone('idle'), 2500);
    return () => clearTimeout(timer);
  }, [done]);
  return (
    <button
      type="button"
      className="button plain small"
      aria-label={label}
      onClick={() =>
        copyText(text).then(
          () => setDone('copied'),
          () => setDone('failed'),
        )
      }
    >
      <span aria-live="polite">{t(`copy.${done}`)}</span>
    </button>
  );
}

/** Puts text on the clipboard; without TLS, where browsers keep the clipboard away, by the old way. */
export async function copyText(text: string): Promise<void> {
  if (navigator.clipboard) {
    await navigator.clipboard.writeText(text);
    return;
  }
  const area = document.createElement('textarea');
  area.value = text;
  area.style.position = 'fixed';
  area.style.opacity = '0';
  document.body.append(area);
  area.select();
  const ok = document.execCommand('copy');
  area.remove();
  if (!ok) {
    throw new Error('copy');
  }
}
