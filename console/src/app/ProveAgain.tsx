import { useNavigate } from '@tanstack/react-router';
import { Button, Form, Input, Modal } from 'antd';
import { useEffect, useState, useSyncExternalStore } from 'react';
import { useTranslation } from 'react-i18next';
import { api, got, onEnrolmentRequired, type Schemas, stepUp } from '../api/client';
import { secondFactor } from '../api/mfa';
import { asProblem } from '../api/problem';
import { goToProvider } from '../lib/sso';
import { useMe } from './data';
import { SecurityKeyButton } from './SecurityKeyButton';
import { ProblemView } from './ui';
import { useSave } from './useSave';

interface Proof {
  password: string;
  code?: string;
}

/** Asks for the password, and the second factor where there is one, when the server wants a fresh proof. */
export function ProveAgain() {
  const { t } = useTranslation();
  const open = useSyncExternalStore(stepUp.subscribe, () => stepUp.open);
  const me = useMe();
  const [form] = Form.useForm<Proof>();
  // What the account's second factors are, once the password was right and the server wants one of them.
  const [awaited, setAwaited] = useState<Schemas['MfaAwaited']>();
  const { busy, problem, save, reset } = useSave<Proof>(form, async (v) => {
    try {
      await got(
        api.POST('/v1/auth/step-up', {
          body: { password: v.password, ...(v.code ? secondFactor(v.code) : {}) },
        }),
      );
    } catch (err) {
      if (asProblem(err).code === 'mfa_code_required' && !awaited) {
        await challenge();
        return;
      }
      throw err;
    }
    end(true);
  });

  async function challenge() {
    setAwaited(await got(api.POST('/v1/auth/step-up/challenge')));
  }

  async function byKey({ mfa_token }: Schemas['MfaAwaited'], credential: string) {
    const password: string = form.getFieldValue('password') ?? '';
    try {
      await got(api.POST('/v1/auth/step-up', { body: { password, mfa_token, credential } }));
    } catch (err) {
      // An answer is for one try.
      await challenge();
      throw err;
    }
    end(true);
  }

  function end(proved: boolean) {
    form.resetFields();
    reset();
    setAwaited(undefined);
    stepUp.answer(proved);
  }

  const federated = problem?.code === 'federated_session';
  return (
    <Modal
      open={open}
      // Above the dialog whose action needs the proof.
      zIndex={1900}
      title={t('step_up.title')}
      okText={t('step_up.submit')}
      cancelText={t('action.cancel')}
      confirmLoading={busy}
      mask={{ closable: false }}
      onOk={form.submit}
      onCancel={() => end(false)}
      destroyOnHidden
    >
      <p>{t('step_up.text')}</p>
      {problem && <ProblemView problem={problem} />}
      {federated && me.data && (
        <p>
          <Button onClick={() => void goToProvider({ tenant_id: me.data.tenant_id, fresh: true })}>
            {t('step_up.at_provider')}
          </Button>
        </p>
      )}
      <Form form={form} name="step_up" layout="vertical" onFinish={save}>
        {/* Tells password managers whose password it is. */}
        <input type="text" hidden readOnly autoComplete="username" value={me.data?.email ?? ''} />
        <Form.Item name="password" label={t('form.password')} rules={[{ required: true, message: t('form.required') }]}>
          <Input type="password" autoComplete="current-password" maxLength={128} autoFocus />
        </Form.Item>
        {awaited && (
          <Form.Item
            name="code"
            label={awaited.methods.includes('totp') ? t('sign_in.code') : t('sign_in.recovery_code')}
            rules={[{ required: true, message: t('form.required') }]}
          >
            <Input autoComplete="one-time-code" maxLength={40} autoFocus={!awaited.webauthn_options} />
          </Form.Item>
        )}
      </Form>
      {awaited?.webauthn_options && (
        <SecurityKeyButton options={awaited.webauthn_options} onAnswer={(credential) => byKey(awaited, credential)} />
      )}
    </Modal>
  );
}

/** Leads whoever lacks the second factor that their tenant asks for to the place where they add one. */
export function useEnrolment() {
  const navigate = useNavigate();
  useEffect(
    () => onEnrolmentRequired(() => void navigate({ to: '/account', search: { enrol: true }, replace: true })),
    [navigate],
  );
}
