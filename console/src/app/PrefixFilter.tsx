import { Input } from 'antd';
import { useEffect, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { useSettled } from './useSettled';

/** Filters by the beginning of names; the address changes when the typing rests, not at every key. */
export function PrefixFilter({ value, onChange }: { value: string; onChange: (v: string) => void }) {
  const { t } = useTranslation();
  const [typed, setTyped] = useState(value);
  const wrong = typed !== '' && !/^[A-Za-z0-9_-]+$/.test(typed);
  useSettled(typed, 300, (v) => {
    if (v !== value && (v === '' || /^[A-Za-z0-9_-]+$/.test(v))) {
      onChange(v);
    }
  });
  useEffect(() => setTyped(value), [value]);
  return (
    <Input
      allowClear
      className="filter"
      aria-label={t('filter.prefix')}
      placeholder={t('filter.prefix')}
      maxLength={100}
      status={wrong ? 'error' : undefined}
      value={typed}
      onChange={(e) => setTyped(e.target.value)}
    />
  );
}
