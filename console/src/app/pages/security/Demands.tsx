import { useQueryClient } from '@tanstack/react-query';
import { Alert, App, AutoComplete, Form, Input, Switch } from 'antd';
import { useTranslation } from 'react-i18next';
import { api, etag, got, type Schemas } from '../../../api/client';
import { durationText } from '../../../lib/duration';
import { useLocale, useMay } from '../../data';
import { durationPattern } from '../../patterns';
import { MayButton, ProblemView } from '../../ui';
import { useSave } from '../../useSave';
import { changed, consequences } from './demands';

const ages = ['720h', '2160h', '4320h', '8760h'];

interface Values {
  name: string;
  mfa_required: boolean;
  sso_required: boolean;
  max_key_age?: string;
}

const securityOf = (v: Values): Schemas['TenantSecurity'] => ({
  mfa_required: v.mfa_required,
  sso_required: v.sso_required,
  ...(v.max_key_age?.trim() ? { max_key_age: v.max_key_age.trim() } : {}),
});

/** The organisation's name and what it demands; whom a change hits is told before it is saved. */
export function Demands({ tenant }: { tenant: Schemas['Tenant'] }) {
  const { t } = useTranslation();
  const locale = useLocale();
  const { message } = App.useApp();
  const queries = useQueryClient();
  const mayWrite = useMay('tenant:write');
  const [form] = Form.useForm<Values>();
  const values = Form.useWatch((v: Values) => v, form);
  const hits = values ? consequences(tenant.security, securityOf(values)) : [];
  const { busy, problem, save } = useSave<Values>(form, async (v) => {
    const security = changed(tenant.security, securityOf(v));
    const name = v.name.trim() === tenant.name ? undefined : v.name.trim();
    if (security || name) {
      const saved = await got(
        api.PATCH('/v1/tenant', {
          params: { header: { 'If-Match': etag(tenant) } },
          body: { ...(name ? { name } : {}), ...(security ? { security } : {}) },
        }),
      );
      queries.setQueryData(['tenant'], saved);
      await queries.invalidateQueries({ queryKey: ['keys'] });
    }
    void message.success(t('state.saved'));
  });
  return (
    <>
      {problem && <ProblemView problem={problem} />}
      <Form
        form={form}
        name="demands"
        layout="vertical"
        className="narrow"
        disabled={!mayWrite}
        onFinish={save}
        initialValues={{ name: tenant.name, ...tenant.security }}
      >
        <Form.Item
          name="name"
          label={t('security.name')}
          rules={[{ required: true, whitespace: true, message: t('form.required') }]}
        >
          <Input autoComplete="organization" maxLength={100} />
        </Form.Item>
        <Form.Item name="mfa_required" label={t('security.mfa')} valuePropName="checked" extra={t('security.mfa_hint')}>
          <Switch />
        </Form.Item>
        <Form.Item name="sso_required" label={t('security.sso')} valuePropName="checked" extra={t('security.sso_hint')}>
          <Switch />
        </Form.Item>
        <Form.Item
          name="max_key_age"
          label={t('security.age')}
          extra={t('security.age_hint')}
          rules={[{ pattern: durationPattern, message: t('form.duration_pattern') }]}
        >
          <AutoComplete
            allowClear
            options={ages.map((a) => ({ value: a, label: `${a}: ${durationText(a, locale)}` }))}
          />
        </Form.Item>
        <div aria-live="polite" data-testid="consequences">
          {hits.map((h) => (
            <Alert key={h} type="warning" showIcon className="gap" title={t(`security.hits_${h}`)} />
          ))}
        </div>
        <MayButton may={mayWrite} type="primary" htmlType="submit" loading={busy} data-testid="save-security">
          {t('action.save')}
        </MayButton>
      </Form>
    </>
  );
}
