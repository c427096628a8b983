import type { ReactNode } from 'react';
import { useTranslation } from 'react-i18next';
import type { ApiProblem } from '../api/problem';
import { minPassword } from './form';
import { Button, Field, ProblemNote } from './ui';

/** A form of the light pages: what went wrong stands above its fields, the one thing to do with them below. */
export function LightForm(props: {
  form: { busy: boolean; problem: ApiProblem | undefined; submit: (e: React.FormEvent) => void };
  submit: string;
  /** The title of a problem where the page knows better; it then stands alone. */
  problemTitle?: (code: string) => string | undefined;
  children: ReactNode;
}) {
  const { form } = props;
  return (
    <form onSubmit={form.submit} noValidate>
      {form.problem && <ProblemNote problem={form.problem} title={props.problemTitle?.(form.problem.code)} />}
      {props.children}
      <Button type="submit" busy={form.busy}>
        {props.submit}
      </Button>
    </form>
  );
}

interface OneField {
  value: string;
  onChange: (value: string) => void;
  error: string | undefined;
}

/** `autoComplete` is `email` where the address is not yet what one signs in with. */
export function EmailField(props: OneField & { autoComplete?: 'username' | 'email' }) {
  const { t } = useTranslation();
  return (
    <Field
      label={t('form.email')}
      name="email"
      type="email"
      autoComplete={props.autoComplete ?? 'username'}
      required
      value={props.value}
      onChange={(e) => props.onChange(e.target.value)}
      error={props.error}
    />
  );
}

export function PasswordField(props: OneField & { label?: string }) {
  const { t } = useTranslation();
  return (
    <Field
      label={props.label ?? t('form.password')}
      name="password"
      type="password"
      autoComplete="current-password"
      maxLength={128}
      required
      value={props.value}
      onChange={(e) => props.onChange(e.target.value)}
      error={props.error}
    />
  );
}

export function NewPasswordField(props: OneField & { label: string }) {
  const { t } = useTranslation();
  return (
    <Field
      label={props.label}
      name="password"
      type="password"
      autoComplete="new-password"
      maxLength={128}
      required
      hint={t('form.password_hint', { min: String(minPassword) })}
      value={props.value}
      onChange={(e) => props.onChange(e.target.value)}
      error={props.error}
    />
  );
}

/** Six digits; what is pasted with blanks or other signs between them is cleaned. */
export function CodeField(props: OneField) {
  const { t } = useTranslation();
  return (
    <Field
      label={t('form.code')}
      name="code"
      className="code-input"
      inputMode="numeric"
      autoComplete="one-time-code"
      required
      value={props.value}
      onChange={(e) => props.onChange(e.target.value.replace(/\D/g, '').slice(0, 6))}
      error={props.error}
    />
  );
}
